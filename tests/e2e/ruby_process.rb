# A Ruby process with objects of many classes, which counts them itself: ruby_process.rb COUNT [churn]
#
# Prints what ObjectSpace says as JSON, then "ready", and ends with its input. The line is written by a forked
# child, so that the counted process makes next to nothing after it has counted. With `churn` it counts
# nothing, and its threads go on making garbage while it is looked at.
require "objspace"
require "json"
require "set"

COUNT = Integer(ARGV[0])

class Base
  def initialize(number)
    @number = number
    @text = "text of #{number}"
  end
end

class Order < Base
  def initialize(number)
    super
    @items = Array.new(number % 30) { |i| i * 1.5 + 1e300 }
    @map = number % 3 == 0 ? {} : { "key#{number}" => self, number => :value }
  end
end

class Wide
  40.times { |i| attr_accessor :"field#{i}" }
end

# So many orders of variables that Ruby gives up to describe each.
class Motley; end

class Words < String; end

class Row < Array; end

class Index < Hash; end

Small = Struct.new(:a, :b)
Large = Struct.new(*(0...90).map { |i| :"f#{i}" })

module Space
  class Inner; end
  Outer = Class.new { const_set(:Deep, Class.new) }
end

class Kept; end

MADE = Array.new(40) { |i| Object.const_set(:"Made#{i}", Class.new(i.odd? ? Base : Order)) }
NAMELESS = Array.new(5) { Class.new(Base) } + [Class.new { const_set(:Part, Class.new) }]
HELD = []

def make(count)
  count.times do |i|
    HELD << Order.new(i) << MADE[i % MADE.size].new(i) << Small.new(i, i.to_s) << Kept.new
    HELD << Words.new("w" * (i % 300)) << Row.new(i % 50, 0) << Index.new << Space::Inner.new
    HELD.last(2)[0].merge!((0...(i % 40)).to_h { |k| [k, k] })
    HELD << Rational(i, 7) << Complex(i, 1) << (1 << (64 + i % 400)) << "x#{i}".match(/(\d+)/) << i * 0.1e200
    next if i % 10 != 0

    HELD << Large.new(*(0...90)) << Space::Outer::Deep.new << NAMELESS[i % 6].allocate << NAMELESS[5]::Part.new
    HELD << Mutex.new << proc { i } << Set.new([i, i + 1]) << [1, 2, 3].each << Thread::Queue.new
    HELD << Wide.new.tap { |wide| 40.times { |f| wide.public_send(:"field#{f}=", f) if f < i % 41 } }
    HELD << Object.new.tap { |one| one.define_singleton_method(:own) { i } }
    long = Array.new(200 + i) { |k| k }
    HELD << long << long[5, 100] << ("é" * 500 + i.to_s) << ("y" * 400).encode("UTF-16LE") << :"symbol_#{i}"
    HELD << Motley.new.tap { |one| (i % 13).times { |v| one.instance_variable_set(:"@m#{(v * (i + 1)) % 97}", v) } }
  end
end

# How many of each class there are, and how many bytes they take.
def counts_of_classes
  counts = {}.compare_by_identity
  ObjectSpace.each_object(Object) do |object|
    found = object.class
    counts[found] = (counts[found] || 0) + 1
  end
  counts
end

# Of those that nothing is made of any more.
def sizes_of_classes
  sizes = MEASURED.to_h { |one| [one, 0] }.compare_by_identity
  ObjectSpace.each_object(Object) do |object|
    sum = sizes[object.class]
    sizes[object.class] = sum + ObjectSpace.memsize_of(object) if sum
  end
  sizes
end

MEASURED = [Order, Kept, Words, Row, Index, Small, Large, Wide, Motley, Rational, Complex, Integer, Float, *MADE].freeze

def say
  counts_of_classes
  sizes = sizes_of_classes
  counts = counts_of_classes
  ObjectSpace.count_objects
  objects = ObjectSpace.count_objects
  pages = GC.stat(:heap_allocated_pages)
  child = fork do
    # Classes whose name is asked for the first time make a string of it.
    named = counts.each_with_object(Hash.new(0)) { |(one, count), sum| sum[Module.instance_method(:inspect).bind_call(one)] += count }
    puts JSON.generate(objects: objects, classes: named, pages: pages, version: RUBY_VERSION,
                       sizes: sizes.transform_keys(&:name),
                       data: ObjectSpace.count_tdata_objects.map { |name, count| [name.to_s, count] }.to_h,
                       imemo: ObjectSpace.count_imemo_objects.map { |name, count| [name.to_s, count] }.to_h)
    $stdout.flush
    exit!
  end
  Process.wait(child)
end

$stdout.sync = true
make(COUNT)
if ARGV[1] == "churn"
  4.times do |number|
    Thread.new do
      loop { Array.new(200) { |i| Order.new(i + number) }.each { |one| one.instance_variable_set(:@later, one.to_s * 20) } }
    end
  end
  puts "ready"
  $stdin.read
  exit!(true)
end
# GC pressure from four threads, which then hold still.
Array.new(4) { Thread.new { 20.times { Array.new(2000) { |i| Order.new(i) } } } }.each(&:join)
4.times { Thread.new { Thread.stop } }
GC.start
GC.disable
say
puts "ready"
$stdin.getbyte
