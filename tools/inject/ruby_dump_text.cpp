#include "tools/inject/ruby_dump_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr std::string_view kMark = "heapsnap-ruby ";
constexpr const char* kFailed = "the Ruby process cannot dump itself";

// Jobs run where nothing may be required or waited for, and what they raise ends the program: so
// all is done in a thread. $0 tells a listing of processes what the child is. ObjectSpace.dump_all
// of Ruby 2.7 writes by a FILE of its own, which is flushed when its IO is closed: so it has one.
//
// The first child makes a process group, by which the second one is waited for where it has become
// the process's own child: in the first process of a container, or one that is a subreaper
// (prctl(2)). Elsewhere nobody of that group is, and the wait fails at once.
constexpr const char* kText = R"(Thread.new do
  begin
    Thread.current.report_on_exception = false
    child = fork do
      begin
        Process.setpgid(0, 0)
        fork do
          begin
            $0 = "heapsnap: dump of Ruby's objects"
            fifo = {folders}.map {{ |folder| folder + "/{name}" }}.find do |path|
              begin
                File.mkfifo(path, 0600)
                true
              rescue SystemCallError
                false
              end
            end
            exit!(1) unless fifo
            out = nil
            begin
              600.times do
                begin
                  out = File.open(fifo, File::WRONLY | File::NONBLOCK)
                  break
                rescue SystemCallError
                  sleep 0.05
                end
              end
            ensure
              File.unlink(fifo)
            end
            exit!(1) unless out
            out.fcntl(4, File::WRONLY)
            out.sync = true
            begin
              require "objspace"
              out.puts "{mark}begin #{{RUBY_VERSION}}"
              copy = out.dup
              ObjectSpace.dump_all(output: copy)
              copy.close
              out.puts "{mark}end"
            rescue Exception => error
              out.puts "{mark}failed #{{error.class}}: #{{error.message.to_s.lines.first.to_s[0, 300]}}"
            end
          ensure
            exit!(0)
          end
        end
      ensure
        exit!(0)
      end
    end
    Process.wait(child)
    Process.wait(-child)
  rescue Exception
  end
end
)";

}  // namespace

std::string ruby_dump_text(std::string_view name) {
  std::string folders;
  for (const char* const folder : kFifoFolders) {
    folders += folders.empty() ? "[" : ", ";
    folders += '"' + std::string(folder) + '"';
  }
  return fmt::format(fmt::runtime(kText), fmt::arg("folders", folders + "]"),
                     fmt::arg("name", name), fmt::arg("mark", kMark));
}

void RubyDumpAnswer::pass_on(std::span<const char> text) {
  bytes_ += text.size();
  receive_(text);
}

void RubyDumpAnswer::take_word(std::string_view line) {
  line.remove_prefix(kMark.size());
  constexpr std::string_view kBegin = "begin ";
  constexpr std::string_view kFailure = "failed ";
  if (line.starts_with(kBegin)) {
    version_ = line.substr(kBegin.size());
  } else if (line.starts_with(kFailure)) {
    throw Error(ErrorKind::kUnsupported, kFailed,
                "its child says: " + std::string(line.substr(kFailure.size())));
  } else if (line == "end") {
    has_ended_ = true;
  }
}

void RubyDumpAnswer::take(std::span<const char> part) {
  while (!part.empty() && !has_ended_) {
    const auto newline = std::find(part.begin(), part.end(), '\n');
    const bool is_whole = newline != part.end();
    const auto here = part.first(static_cast<size_t>(newline - part.begin()) + (is_whole ? 1 : 0));
    part = part.subspan(here.size());
    if (is_in_line_) {
      pass_on(here);
      is_in_line_ = !is_whole;
      lines_ += is_whole ? 1 : 0;
      continue;
    }
    line_.append(here.begin(), here.end());
    if (kMark.starts_with(std::string_view(line_).substr(0, kMark.size())) &&
        line_.size() <= kLongestWord) {
      if (!is_whole) continue;
      if (line_.size() > kMark.size()) {
        take_word(std::string_view(line_).substr(0, line_.size() - 1));
        line_.clear();
        continue;
      }
    }
    if (version_.empty() || line_.front() != '{') {
      throw Error(ErrorKind::kUnsupported, kFailed, "what came out of the FIFO is no dump");
    }
    pass_on(line_);
    is_in_line_ = !is_whole;
    lines_ += is_whole ? 1 : 0;
    line_.clear();
  }
}

}  // namespace heapsnap
