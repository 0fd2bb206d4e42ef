#!/usr/bin/env node
// Claims a cell or renews a lease with plain file I/O:
//
//   cell.mjs claim cells/CELL/own NODE   at a line of input; releases at the next
//   cell.mjs renew nodes/NODE NODE       for 10 s at each line; then ends it
//
// A write replaces what this descriptor has read or written last, or is EBUSY.
import { constants, openSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const TTL_MS = 10_000;

function get(fd) {
  const record = readFileSync(fd, "utf8").trim();
  console.log(record);
  return record;
}

function put(fd, record) {
  writeSync(fd, record, 0);
  console.log(record);
}

async function claim(fd, node, lines) {
  // not by JSON.parse(), which rounds numbers above 2 ** 53
  const [, last = 0] = get(fd).match(/"epoch"\s*:\s*(\d+)/) ?? [];
  const epoch = BigInt(last) + 1n;
  await lines.next();
  put(fd, `{"node":"${node}","epoch":${epoch}}`);
  await lines.next();
  put(fd, `{"node":"","epoch":${epoch}}`);
}

async function renew(fd, node, lines) {
  const lease = { node, expires_ms: 0, addr: node };
  get(fd);
  for await (const _ of lines)
    put(fd, JSON.stringify({ ...lease, expires_ms: Date.now() + TTL_MS }));
  put(fd, JSON.stringify(lease));
}

const [command, path, node] = process.argv.slice(2);
const run = { claim, renew }[command];
if (!run || !node) {
  console.error("usage: cell.mjs claim|renew FILE NODE");
  process.exit(1);
}
const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o644);
const lines = createInterface(process.stdin)[Symbol.asyncIterator]();
await run(fd, node, lines).catch((error) => {
  if (error.code !== "EBUSY") throw error;
  console.error(`${path}: busy: nothing was written`);
  process.exit(1);
});
process.exit();
