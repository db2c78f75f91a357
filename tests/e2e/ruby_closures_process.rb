# Ruby programs that keep what they have made in a variable that a closure has captured, as a target: the first argument
# says which. Says where one of the things lies and what holds it, and then `ready`.
require 'json'
require 'objspace'

FILE = File.basename(__FILE__)

class Order
  def initialize(number)
    @number = number
    @note = "order #{number} " * 12
    @lines = [number.to_s * 30, [number]]
  end
end

def collector
  orders = []
  lambda do |number|
    orders << Order.new(number)
    orders
  end
end

def nested
  orders = []
  [1].map do |_|
    count = 0
    lambda do |number|
      count += 1
      orders << Order.new(number)
      orders
    end
  end.first
end

# The environment of a method with many variables is larger than a word has bits.
def many_variables
  eval((0...100).map { |number| "v#{number} = nil" }.join("\n") + "\norders = []\n" \
       "lambda { |number| orders << Order.new(number); orders }", binding)
end

class Service
  orders = []
  define_method(:take) do |number|
    orders << Order.new(number)
    orders
  end
end

def address_of(one)
  Integer(JSON.parse(ObjectSpace.dump(one)).fetch('address'), 16)
end

def finish(address, name, kind = 'global')
  $stdout.puts(JSON.generate({ address: address, name: name, kind: kind, pid: Process.pid }))
  $stdout.puts('ready')
  $stdout.flush
  $stdin.read
end

# Few of the blocks of malloc of that size are variables of closures: those of locks are as large.
LOCKS = Array.new(2000) { Mutex.new }
OTHERS = Array.new(3) { |number| [collector, proc { number }, binding] }
OTHERS.each { |one, _| one.call(0) }

# What was made is only in the closure, and it is called at last, so that what is left over of the call leads there, too.
def fill(closure, count)
  count.times { |number| closure.call(number) }
  GC.start
  address_of(closure.call(count)[700])
end

def thread_block(count)
  Thread.new do
    orders = Array.new(count) { |number| Order.new(number) }
    OTHERS << -> { orders }
    finish(address_of(orders[700]), "orders in block in thread_block() at #{FILE}:#{__LINE__}", 'local')
    orders.size
  end.join
end

# Of a variable that a closure has captured, the stack still has what it was before. The collector keeps that, too, until
# the method returns.
def was_captured(count)
  orders = Array.new(count) { |number| Order.new(number) }
  place = address_of(orders[700])
  OTHERS << -> { orders }
  orders = nil
  finish(place, "perhaps a temporary in was_captured() at #{FILE}:#{__LINE__}", 'local')
end

count = Integer(ARGV[1])
case ARGV[0]
when 'constant'
  COLLECTOR = collector
  finish(fill(COLLECTOR, count), 'COLLECTOR')
when 'hash'
  HANDLERS = { take: collector, give: collector }
  finish(fill(HANDLERS[:take], count), 'HANDLERS')
when 'last'
  FIRST = collector
  LAST = { take: collector }
  fill(FIRST, 1000)
  finish(fill(LAST[:take], count), 'LAST')
when 'nested'
  NESTED = nested
  finish(fill(NESTED, count), 'NESTED')
when 'many_variables'
  MANY = many_variables
  finish(fill(MANY, count), 'MANY')
when 'method'
  finish(fill(Service.new.method(:take), count), 'Service')
when 'binding'
  PLACE = collector.binding
  finish(fill(PLACE.eval('->(number) { orders << Order.new(number); orders }'), count), 'PLACE')
else send(ARGV[0], count)
end
