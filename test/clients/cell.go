// Claims a cell or renews a lease with plain file I/O:
//
//	cell claim cells/CELL/own NODE   at a line of input; releases at the next
//	cell renew nodes/NODE NODE       for 10 s at each line; then ends it
//
// A write replaces what this descriptor has read or written last, or is EBUSY.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"syscall"
	"time"
)

func check(err error) {
	if errors.Is(err, syscall.EBUSY) {
		log.Fatalf("%s: busy: nothing was written", os.Args[2])
	} else if err != nil && err != io.EOF {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: cell claim|renew FILE NODE")
	}
	command, path, node := os.Args[1], os.Args[2], os.Args[3]
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	check(err)
	var last struct{ Epoch uint64 } // 0 if there is no record yet: EOF
	check(json.NewDecoder(io.TeeReader(file, os.Stdout)).Decode(&last))
	fmt.Println()
	put := func(format string, fields ...any) {
		record := fmt.Sprintf(format, fields...)
		_, err := file.WriteAt([]byte(record), 0)
		check(err)
		fmt.Println(record)
	}
	switch lines := bufio.NewScanner(os.Stdin); command {
	case "claim":
		lines.Scan()
		put(`{"node":%q,"epoch":%d}`, node, last.Epoch+1)
		lines.Scan()
		put(`{"node":"","epoch":%d}`, last.Epoch+1)
	case "renew":
		const lease = `{"node":%q,"expires_ms":%d,"addr":%[1]q}`
		for lines.Scan() {
			put(lease, node, time.Now().Add(10*time.Second).UnixMilli())
		}
		put(lease, node, 0)
	}
}
