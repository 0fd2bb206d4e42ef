// Claims a cell or renews a lease with plain file I/O:
//
//   cell claim cells/CELL/own NODE   at a line of input; releases at the next
//   cell renew nodes/NODE NODE       for 10 s at each line; then ends it
//
// A write replaces what this descriptor has read or written last, or is EBUSY.
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

const TTL_MS: u128 = 10_000;
const EBUSY: i32 = 16;

/// The standard library has no JSON, and a number needs none.
fn epoch(record: &str) -> Option<u64> {
    let (_, rest) = record.split_once("\"epoch\":")?;
    rest.split([',', '}']).next()?.trim().parse().ok()
}

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().collect();
    if args.len() != 4 {
        eprintln!("usage: cell claim|renew FILE NODE");
        process::exit(1);
    }
    let (command, path, node) = (&args[1], &args[2], &args[3]);
    let mut options = fs::OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).open(path)?;
    let mut record = String::new();
    file.read_to_string(&mut record)?;
    println!("{record}");
    let put = |record: String| match file.write_all_at(record.as_bytes(), 0) {
        Err(error) if error.raw_os_error() == Some(EBUSY) => {
            eprintln!("{path}: busy: nothing was written");
            process::exit(1);
        }
        result => result.map(|()| println!("{record}")),
    };
    let mut lines = io::stdin().lines();
    if command == "claim" {
        let epoch = epoch(&record).unwrap_or(0) + 1;
        lines.next();
        put(format!(r#"{{"node":"{node}","epoch":{epoch}}}"#))?;
        lines.next();
        put(format!(r#"{{"node":"","epoch":{epoch}}}"#))
    } else {
        let lease = |ms| {
            put(format!(
                r#"{{"node":"{node}","expires_ms":{ms},"addr":"{node}"}}"#
            ))
        };
        for _ in lines {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            lease(now.as_millis() + TTL_MS)?;
        }
        lease(0)
    }
}
