#include <array>

#include "tools/heapsnap/command.h"

namespace heapsnap {

namespace {

constexpr std::array kCommands = {
    Command{"attach", "snapshot of a running process, and where its memory is", run_attach, true},
    Command{"core", "the same from a core file or memory images", run_core},
    Command{"report", "everything that a snapshot knows", run_report},
    Command{"inject", "the tracker into a running process, or new options for it", run_inject,
            true},
    Command{"eject", "the tracker out of action again", run_eject, true},
    Command{"run", "a program with the tracker in it from its first allocation", run_run, false,
            true},
    Command{"stacks", "the call stacks that a tracked process's memory came from", run_stacks,
            true},
    Command{"watch", "looks at a tracked process, and takes snapshots when it grows", run_watch,
            true},
    Command{"render", "the heap as a picture", run_render},
    Command{"export", "a snapshot in a format that other tools read", run_export},
    Command{"trim", "makes a process give free memory back to the system", run_trim, true},
    Command{"doctor", "what bars an attach, and what to do about it", run_doctor},
    Command{"completions", "completions for bash, zsh or fish", run_completions},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace heapsnap
