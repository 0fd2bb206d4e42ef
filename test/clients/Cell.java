// Claims a cell or renews a lease with plain file I/O:
//
//   Cell claim cells/CELL/own NODE   at a line of input; releases at the next
//   Cell renew nodes/NODE NODE       for 10 s at each line; then ends it
//
// A write replaces what this channel has read or written last, or is EBUSY.
import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.*;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.regex.*;

public class Cell {
    static final long TTL_MS = 10_000;
    static final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));

    static void put(FileChannel file, String format, Object... fields) throws IOException {
        String record = String.format(format, fields);
        file.write(ByteBuffer.wrap(record.getBytes(UTF_8)), 0);
        System.out.println(record);
    }

    static void claim(FileChannel file, String record, String node) throws IOException {
        Matcher found = Pattern.compile("\"epoch\"\\s*:\\s*(\\d+)").matcher(record);
        long last = found.find() ? Long.parseUnsignedLong(found.group(1)) : 0;
        String epoch = Long.toUnsignedString(last + 1);
        lines.readLine();
        put(file, "{\"node\":\"%s\",\"epoch\":%s}", node, epoch);
        lines.readLine();
        put(file, "{\"node\":\"\",\"epoch\":%s}", epoch);
    }

    static void renew(FileChannel file, String node) throws IOException {
        String lease = "{\"node\":\"%s\",\"expires_ms\":%d,\"addr\":\"%1$s\"}";
        while (lines.readLine() != null)
            put(file, lease, node, System.currentTimeMillis() + TTL_MS);
        put(file, lease, node, 0);
    }

    public static void main(String[] args) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(args[1]), READ, WRITE, CREATE)) {
            ByteBuffer bytes = ByteBuffer.allocate(65536);
            file.read(bytes);
            String record = UTF_8.decode(bytes.flip()).toString();
            System.out.println(record);
            if (args[0].equals("claim")) claim(file, record, args[2]);
            else renew(file, args[2]);
        } catch (IOException e) {
            // There is no errno, only its text, in the language of the locale.
            if (!"Device or resource busy".equals(e.getMessage())) throw e;
            System.err.println(args[1] + ": busy: nothing was written");
            System.exit(1);
        }
    }
}
