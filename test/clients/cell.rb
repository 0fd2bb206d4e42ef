#!/usr/bin/env ruby
# Claims a cell or renews a lease with plain file I/O:
#
#   cell.rb claim cells/CELL/own NODE   at a line of input; releases at the next
#   cell.rb renew nodes/NODE NODE       for 10 s at each line; then ends it
#
# A write replaces what this descriptor has read or written last, or is EBUSY.
require "json"

TTL_MS = 10_000

def get(file)
  text = file.read
  puts text.strip
  text.empty? ? { "epoch" => 0 } : JSON.parse(text)
end

def put(file, record)
  text = JSON.generate(record)
  file.pwrite(text, 0) # not IO#write, which may send it only in close
  puts text
end

def claim(file, node)
  epoch = get(file)["epoch"] + 1
  $stdin.gets
  put(file, { node: node, epoch: epoch })
  $stdin.gets
  put(file, { node: "", epoch: epoch })
end

def renew(file, node)
  lease = { node: node, expires_ms: 0, addr: node }
  get(file)
  $stdin.each_line do
    put(file, lease.merge(expires_ms: (Time.now.to_f * 1000).to_i + TTL_MS))
  end
  put(file, lease)
end

command, path, node = ARGV
abort "usage: cell.rb claim|renew FILE NODE" unless
  %w[claim renew].include?(command) && node
$stdout.sync = true
begin
  File.open(path, File::RDWR | File::CREAT) { |file| send(command, file, node) }
rescue Errno::EBUSY
  abort "#{path}: busy: nothing was written"
end
