# A Ruby process with objects of many types, as a target: dumps itself, says where to, and then `ready`.
require 'objspace'
require 'json'
require 'set'
require 'tempfile'

class Order
  def initialize(number)
    @number = number
    @note = "order #{number} " * 8
    @lines = [number.to_s * 30, { number => @note }, 1.5, :sym]
    @more = { note: @note, "key #{number}" => number } if number.odd?
  end
end

Pair = Struct.new(:left, :right)
Wide = Struct.new(:a, :b, :c, :d, :e, :f)

module Shop
  class Basket
    DEFAULT = ['empty']
    @@all = {}
    @last = ['last basket']

    def initialize(orders)
      @orders = orders
      @wide = Wide.new(orders, [1], 'x' * 60, nil, { a: [] }, 2**80)
    end

    def self.keep(name, basket)
      @@all[name] = basket
    end
  end
end

ORDERS = Array.new(Integer(ARGV[0])) { |number| Order.new(number) }
ORDERS.each_slice(20) { |some| Shop::Basket.keep("basket #{some.size}#{rand(1000)}", Shop::Basket.new(some)) }
PAIRS = ORDERS.first(300).map { |order| Pair.new(order, [order]) }
TABLE = (0...2000).to_h { |number| ["name #{number}" * 3, [number, "text #{number}" * 6]] }
DATA_OBJECTS = [Mutex.new, Thread.current, Proc.new { ORDERS }, Set.new(PAIRS.first(40)), Object.new.method(:inspect)]
SINGLETON = Object.new.tap { |one| one.define_singleton_method(:name) { 'one' } }
ANONYMOUS = Class.new { def initialize; @held = ['held']; end }
HELD = ANONYMOUS.new
# Their variables are elsewhere.
NOTED = [Array, Hash, String, Struct.new(:one)].flat_map do |kind|
  noted = Class.new(kind) { attr_writer :note }
  Array.new(50) { |number| noted.new.tap { |one| one.note = "note #{number} " * 10 } }
end
$queue = [ORDERS.first, 'queued' * 20]

warm = lambda do |path|
  File.open(path, 'w') { |file| ObjectSpace.dump_all(output: file) }
end
file = Tempfile.create('ruby_dump')
2.times { warm.call(file.path) }
# No young array has its items in a heap of their own any more, and nothing is dead that was not swept.
6.times { GC.start }
GC.disable
warm.call(file.path)
$stdout.puts(JSON.generate({ dump: file.path, version: RUBY_VERSION }))
$stdout.puts('ready')
$stdout.flush
$stdin.read
File.unlink(file.path)
