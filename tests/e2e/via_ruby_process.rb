# A Ruby process in one of the states in which it may be asked to dump itself: via_ruby_process.rb STATE COUNT
#
#   reading     its only thread waits for input
#   reaping     the same; it is told beforehand to take orphans as its children
#   sleeping    it sleeps, and another waits for the input
#   busy        it computes, and never waits
#   threads     four make garbage, one waits for input, one for a queue
#   collecting  as busy, with a full collection all the time
#   trapping    it has handlers of its own for SIGCHLD and SIGTERM
#
# Prints "ready", and at the end of its input how many of its objects are left, and what it has noticed.
STATE, COUNT = ARGV[0], Integer(ARGV[1])

class Order
  def initialize(number)
    @text = "order number #{number}"
  end
end

ORDERS = (1..COUNT).map { |number| Order.new(number) }
$noticed = []

def wait_for_input
  $stdin.read
end

def in_background
  Thread.new { wait_for_input }
end

$stdout.puts "ready"
$stdout.flush
case STATE
when "reading", "reaping"
  wait_for_input
when "sleeping"
  input = in_background
  sleep 0.5 while input.alive?
when "busy", "collecting"
  input = in_background
  sum = 0
  while input.alive?
    1000.times { |number| sum += number.to_s.size }
    GC.start if STATE == "collecting"
  end
when "threads"
  queue = Queue.new
  waiting = Thread.new { queue.pop }
  input = in_background
  workers = Array.new(4) { Thread.new { Array.new(10) { "garbage " * 10 } while input.alive? } }
  workers.each(&:join)
  queue << nil
  waiting.join
when "trapping"
  trap("TERM") { $noticed << "SIGTERM" }
  trap("CHLD") do
    begin
      while (pid = Process.wait(-1, Process::WNOHANG))
        $noticed << "child"
      end
    rescue Errno::ECHILD
    end
  end
  wait_for_input
end
puts "#{ObjectSpace.each_object(Order).count} #{ORDERS.size} #{Thread.list.size} #{($noticed - ["child"]).join(",")}"
