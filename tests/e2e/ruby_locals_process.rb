# Ruby programs that keep what they have made in a local variable only, as a target: the first argument says which. Says
# where one of the things lies and which variable holds it, and then `ready`.
require 'json'
require 'objspace'

FILE = File.basename(__FILE__)
HELD = []

class Order
  def initialize(number)
    @number = number
    @note = "order #{number} " * 12
    @lines = [number.to_s * 30, [number]]
  end
end

class Worker
  def initialize(count)
    @orders = make(count)
  end

  def run
    finish(address_of(@orders[700]), "self in run() at #{FILE}:#{__LINE__}")
  end
end

# What was made lies where it stays, and what is left over of making it is overwritten.
def make(count)
  made = Array.new(count) { |number| Order.new(number) }
  dig(200)
  made
end

def dig(depth)
  depth.zero? ? GC.start : dig(depth - 1)
end

def address_of(one)
  Integer(JSON.parse(ObjectSpace.dump(one)).fetch('address'), 16)
end

def finish(address, name)
  6.times { dig(50) }
  $stdout.puts(JSON.generate({ address: address, name: name, pid: Process.pid }))
  $stdout.puts('ready')
  $stdout.flush
  $stdin.read
end

def method_local(count)
  orders = make(count)
  finish(address_of(orders[700]), "orders in method_local() at #{FILE}:#{__LINE__}")
  orders.size
end

def block_local(count)
  [1].each do |_|
    rows = make(count)
    finish(address_of(rows[700]), "rows in block in block_local() at #{FILE}:#{__LINE__}")
    rows.size
  end
end

def argument(items)
  passed_down(items, "items in argument() at #{FILE}:#{__LINE__}")
  items.size
end

def passed_down(items, name)
  finish(address_of(items[700]), name)
  items.size
end

def captured(count)
  kept = make(count)
  get = lambda { kept }
  HELD << 1
  finish(address_of(get.call[700]), "kept in captured() at #{FILE}:#{__LINE__}")
  get.call.size
end

# What leads to the interpreter, whose table of strings is large, is no variable's: the thread, and
# what its block has captured.
def beside_thread(count)
  HELD.concat((1..30_000).map { |number| -"string number #{number} of those that are kept once" })
  other = Thread.new { sleep }
  items = make(count)
  finish(address_of(items[700]), "items in beside_thread() at #{FILE}:#{__LINE__}")
  other.kill
  items.size
end

def thread_local(count)
  Thread.new do
    Thread.current.name = 'worker'
    lines = make(count)
    finish(address_of(lines[700]), "lines in block in thread_local() at #{FILE}:#{__LINE__}")
    lines.size
  end.join
end

def fiber_local(count)
  name = nil
  fiber = Fiber.new do
    parts = make(count)
    name = "parts in block in fiber_local() at #{FILE}:#{__LINE__ + 1}"
    Fiber.yield address_of(parts[700])
    parts.size
  end
  finish(fiber.resume, name)
  fiber.resume
end

# What Rails keeps between its calls: of the main thread, and of one that works.
def kept_by_thread(count)
  Thread.current[:orders] = make(count)
  finish(address_of(Thread.current[:orders][700]), 'Thread.current[:orders]')
end

def kept_by_worker(count)
  Thread.new do
    Thread.current.name = 'worker'
    Thread.current[:orders] = make(count)
    finish(address_of(Thread.current[:orders][700]), 'Thread.current[:orders]')
  end.join
end

def many_lines(count)
  orders = make(count)
  number = 0
  number += [1, 2, 3].map { |one| one * 2 }.sum
  number += [1, 2, 3].map { |one| one * 3 }.sum
  number += [1, 2, 3].map { |one| one * 4 }.sum
  number += [1, 2, 3].map { |one| one * 5 }.sum
  number += [1, 2, 3].map { |one| one * 6 }.sum
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  number += "#{number} #{number} #{number}".size * "#{number} #{number} #{number}".size
  finish(address_of(orders[700]), "orders in many_lines() at #{FILE}:#{__LINE__}")
  orders.size + number
end

count = Integer(ARGV[1])
case ARGV[0]
when 'main'
  orders = make(count)
  finish(address_of(orders[700]), "orders in <main> at #{FILE}:#{__LINE__}")
  orders.size
when 'beside_thread' then beside_thread(count)
when 'argument' then argument(make(count))
when 'self' then Worker.new(count).run
else send(ARGV[0], count)
end
