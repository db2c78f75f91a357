# A Ruby process with buffers of young objects, as a target: says how many, and then `ready`.
require 'json'

Pair = Struct.new(:a, :b, :c, :d, :e)

class Order
  def initialize(number)
    @a = @b = @c = @d = @e = number
  end
end

KEPT = []
GC.start
GC.disable
count = Integer(ARGV[0])
count.times do |number|
  KEPT << [number] * 6 << Pair.new(1, 2, 3, 4, number) << Order.new(number) << { number => 1, 2 => 3 }
end
$stdout.puts(JSON.generate({ version: RUBY_VERSION, objects: 4 * count }))
$stdout.puts('ready')
$stdout.flush
$stdin.read
