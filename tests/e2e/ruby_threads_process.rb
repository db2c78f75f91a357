# A Ruby program with constants that hold threads, fibers and enumerators: each of them leads to the state of the interpreter
# and to its first thread. Says the bytes that a worker keeps for each thread, and then `ready`.
require 'json'

MAIN = Thread.current
POOL = [Thread.new { sleep }]
READERS = Array.new(20) do
  reader = Enumerator.new { |to| 3.times { |i| to << i } }
  reader.next
  reader
end
FIBERS = Array.new(5) { Fiber.new { Fiber.yield 1 } }.each(&:resume)

KEPT = 300_000
STARTED = Queue.new
WORKERS = Array.new(3) do
  Thread.new do
    Thread.current.thread_variable_set(:kept, Array.new(KEPT / 3, &:to_s))
    STARTED << true
    sleep
  end
end
3.times { STARTED.pop }
puts JSON.generate({ 'strings' => KEPT })
puts 'ready'
$stdout.flush
$stdin.read
