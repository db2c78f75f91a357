# A service of Ruby with a leak through a constant, as a target: says what some objects refer to, by ObjectSpace's own
# word, and then `ready`.
require 'objspace'
require 'json'

class Order
  def initialize(number)
    @number = number
    @note = "order #{number} " * 8
    @lines = [number.to_s * 30, { number => @note }, 1.5, :sym]
  end
end

Pair = Struct.new(:left, :right)

module Cache
  STORE = {}
  SEEN = []
  YOUNG = []
  KEPT = Array.new(1000) { |number| "kept #{number} " * 20 }
  # Its end still has what it no longer holds.
  DRAINED = [0] * 1000 + KEPT
  1000.times { DRAINED.pop }
end

module Service
  class Registry
    ITEMS = []
    @@known = { first: 'known ' * 30 }
    @first = 1
    @last = ['last ' * 30]

    def self.variables
      { 'Service::Registry.@@known' => @@known, 'Service::Registry.@last' => @last }
    end
  end
end

# What was taken out of these is still in their memory, and Cache::TAKEN has it.
module Cache
  TAKEN = Array.new(100) { |number| "taken #{number} " * 9 }
  HOLES = TAKEN.each_slice(25).map do |some|
    table = (some + Array.new(20) { |number| "stays #{number} " * 9 }).to_h { |one| [one, [one]] }
    some.each { |one| table.delete(one) }
    short = some.first(3)
    2.times { short.pop }
    few = some.first(4).to_h { |one| [one, one] }
    few.delete(some[1])
    3.times { few.shift }
    [table, short, few]
  end.flatten(1)
end

count = Integer(ARGV[0])
$queue = Array.new(50) { |number| "queued #{number} " * 9 }
$other = nil
count.times { |number| Cache::STORE["key #{number}"] = Order.new(number) }
200.times { |number| Cache::SEEN << "seen #{number} " * 10 }
100.times { |number| Service::Registry::ITEMS << Pair.new("left #{number}" * 9, [number.to_s]) }

# What these have beside their slot lies in blocks of malloc.
LongStruct = Struct.new(*(0...100).map { |number| :"field#{number}" })
class LongObject
  def initialize
    100.times { |number| instance_variable_set(:"@field#{number}", number) }
  end
end
Cache::LONG = Array.new(500) do |number|
  [Array.new(100, number), LongStruct.new(*(0...100)), LongObject.new, 1 << (4000 + number)]
end

# Objects that have no room for variables have them elsewhere.
module Noted
  def note(number)
    @note = ["note #{number} " * 20]
    @number = number
    self
  end
end
class Bag < Array; include Noted; end
class Names < Hash; include Noted; end
class Title < String; include Noted; end
class Couple < Struct.new(:left, :right); include Noted; end
module Cache
  NOTED = [Bag, Names, Title, Couple].flat_map { |kind| Array.new(100) { |number| kind.new.note(number) } }
  # Many shapes, and more variables than fit into a mask of words.
  MOTLEY = Array.new(50) do |number|
    Bag.new.tap { |bag| bag.instance_variable_set(:"@motley#{number}", "motley #{number} " * 20) }.note(number)
  end
  VARIED = Array.new(20) do |number|
    Title.new.tap do |title|
      100.times { |field| title.instance_variable_set(:"@field#{field}", "field #{field} of #{number} " * 5) }
    end
  end
  # Their variables are in the table no more.
  GONE = Array.new(100) { |number| Bag.new.note(number) }
  GONE.each { |bag| bag.instance_variables.each { |name| bag.remove_instance_variable(name) } }
  GONE.fill(nil)
end

# A finalizer does not keep its object.
class Ended
  def initialize(number)
    @note = "ended #{number} " * 20
  end
end
FINALIZER = proc { |_| }
def leave(number)
  1000.times { ObjectSpace.define_finalizer(Ended.new(number), FINALIZER) }
end

# What is in a weak map alone is not kept by it.
class WeakKey; end
class WeakValue
  def initialize(number)
    @note = "weak #{number} " * 20
  end
end
KEPT_KEYS = Array.new(1000) { Object.new }
WEAK_MAPS = Array.new(3) { ObjectSpace::WeakMap.new }
KEY_MAP = ObjectSpace::WeakKeyMap.new if ObjectSpace.const_defined?(:WeakKeyMap)
def fill_weak_maps(count)
  count.times { |number| WEAK_MAPS[0][KEPT_KEYS[number]] = WeakValue.new(number) }
  5.times { |number| WEAK_MAPS[1][KEPT_KEYS[number]] = WeakValue.new(number) }
  count.times do |number|
    WEAK_MAPS[2][WeakKey.new] = KEPT_KEYS[number]
    KEY_MAP[WeakKey.new] = [number.to_s * 30] if defined?(KEY_MAP)
  end
end

# The buffers of each: characters read, written, and converted.
module Cache
  READERS = Array.new(200) { File.open(__FILE__).tap(&:gets) }
  WRITERS = Array.new(100) { File.open(File::NULL, 'w').tap { |file| file.write('written') } }
  CONVERTERS = Array.new(100) { File.open(__FILE__, 'r:iso-8859-1:utf-8').tap(&:getc) }
end

# The code of a rescue or an ensure is held by its method's alone.
eval((0...1000).map do |number|
  "def careful#{number}(one); begin; one.foo; rescue ArgumentError => error; [error, one]; ensure; one.to_s; end; end"
end.join("\n"))

def look
  Cache::STORE.size + Cache::SEEN.size + Service::Registry::ITEMS.size
end
3.times { look }
# No young array has its items in a heap of their own any more.
6.times { GC.start }
GC.disable

# What these have beside their slot lies in Ruby's heap for young objects (up to 3.2).
Trade = Struct.new(:a, :b, :c, :d, :e)
class Wide
  def initialize(number)
    @a = @b = @c = @d = "wide #{number}" * 20
    @e = [number.to_s * 30] * 5
  end
end
300.times do |number|
  text = "young #{number}" * 30
  Cache::YOUNG << [text] * 6 << Trade.new(text, [1], nil, 2, text.dup) << Wide.new(number) << { text => [number.to_s] }
  Cache::YOUNG.last.delete(text) if number % 3 == 0
end

leave(1)
fill_weak_maps(1000)

def references(object)
  JSON.parse(ObjectSpace.dump(object)).fetch('references', []).map { |text| Integer(text, 16) }
end

def address(object)
  Integer(JSON.parse(ObjectSpace.dump(object)).fetch('address'), 16)
end

some = Cache::STORE.values.first(50)
some += some.map { |order| order.instance_variable_get(:@lines) }
some += some.first(50).map { |order| order.instance_variable_get(:@lines)[1] }
# Ones that are still young have items and pairs in the heap for these.
Cache::NOTED << Bag.new([1, 'young' * 20, 3, 4]).note(0) << Names.new.note(1).merge!({ a: 'young ' * 20 })
some += Cache::NOTED + Cache::MOTLEY + Cache::VARIED
some += Cache::YOUNG + Cache::HOLES + Service::Registry::ITEMS + [Cache::STORE, Cache::SEEN, Service::Registry::ITEMS]
said = { references: some.map { |object| [address(object), references(object)] },
         order: address(Cache::STORE.values[3]),
         interned: Array.new(Integer(ARGV[1])) { |number| address(-"interned #{number}") },
         variables: { '$queue' => $queue }.merge(Service::Registry.variables).transform_values { |one| address(one) } }
$stdout.puts(JSON.generate(said))
$stdout.puts('ready')
$stdout.flush
$stdin.read
