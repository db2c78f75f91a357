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

count = Integer(ARGV[0])
$queue = Array.new(50) { |number| "queued #{number} " * 9 }
$other = nil
count.times { |number| Cache::STORE["key #{number}"] = Order.new(number) }
200.times { |number| Cache::SEEN << "seen #{number} " * 10 }
100.times { |number| Service::Registry::ITEMS << Pair.new("left #{number}" * 9, [number.to_s]) }

def look
  Cache::STORE.size + Cache::SEEN.size + Service::Registry::ITEMS.size
end
3.times { look }
# No young array has its items in a heap of their own any more.
6.times { GC.start }
GC.disable

def references(object)
  JSON.parse(ObjectSpace.dump(object)).fetch('references', []).map { |text| Integer(text, 16) }
end

def address(object)
  Integer(JSON.parse(ObjectSpace.dump(object)).fetch('address'), 16)
end

some = Cache::STORE.values.first(50)
some += some.map { |order| order.instance_variable_get(:@lines) }
some += some.first(50).map { |order| order.instance_variable_get(:@lines)[1] }
some += Service::Registry::ITEMS + [Cache::STORE, Cache::SEEN, Service::Registry::ITEMS]
said = { references: some.map { |object| [address(object), references(object)] },
         order: address(Cache::STORE.values[3]),
         variables: { '$queue' => $queue }.merge(Service::Registry.variables).transform_values { |one| address(one) } }
$stdout.puts(JSON.generate(said))
$stdout.puts('ready')
$stdout.flush
$stdin.read
