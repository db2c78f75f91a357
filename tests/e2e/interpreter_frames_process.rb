# Allocates blocks in methods and blocks of all kinds, and says of each which calls Ruby itself sees: a line of JSON per
# block. Each line of its standard input names the method to call.

require "json"

$kept = []
$lock = Mutex.new
$next_size = 20_001

def say(what)
  $lock.synchronize { $stdout.puts(JSON.generate(what)); $stdout.flush }
end

def big
  size = $lock.synchronize { ($next_size += 101) - 101 }
  stack = caller_locations(0).select { |one| one.path }.map { |one| [one.label, one.path, one.lineno] }
  stack[0][2] = __LINE__ + 1
  $kept << ("x" * size)
  say({ size: size, stack: stack })
end

def generate(count)
  return to_enum(:generate, count) unless block_given?
  count.times { |i| big; yield i }
end

class Shop
  def handle
    generate(2) { |i| i }
    [3, 1].sort_by { |number| big; -number }
    "ba".gsub("a") { replace }
    generate(1).next
    method(:replace).call
    send(:replace)
  end

  def replace
    big
    "x"
  end

  define_method(:price) { big; 3 }
end

def deep(levels)
  return big if levels == 0
  deep(levels - 1)
end

def größe
  big
end

def failing
  raise ArgumentError, "x"
rescue ArgumentError
  big
ensure
  big
end

def several
  Shop.new.handle
  Shop.new.price
  deep(3)
  größe
  failing
  lambda { big }.call
  proc { big }.call
  eval("big")
  instance_eval { big }
  [1, 2].each { |number| [number].map { |_| big } }
end

def deleted
  space = Module.new
  space.module_eval("def self.gone(it)\n\n  it.send(:big)\nend\n", "/nowhere/gone.rb", 1)
  space.gone(self)
  space = nil
  GC.start
  200.times { |i| Module.new.module_eval("def self.other#{i} = #{i}", "/nowhere/other.rb", 1) }
  GC.start
end

def threads
  Array.new(3) { Thread.new { several } }.each(&:join)
end

def in_fork
  pid = fork do
    several
    say({ ready: Process.pid })
    sleep
  end
  $child = pid
end

say({ ready: Process.pid })
while (line = $stdin.gets)
  what = line.strip
  if what == "fork"
    in_fork
    next
  elsif what == "wait"
    Process.kill(:KILL, $child)
    Process.wait($child)
  else
    send(what)
  end
  say({ ready: Process.pid })
end
