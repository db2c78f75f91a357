#include <array>

#include "tools/heapsnap/command.h"

namespace heapsnap {

namespace {

constexpr std::array kCommands = {
    Command{"attach", "take a snapshot of a running process and account for its memory", run_attach,
            true},
    Command{"core", "the same from a core file or memory images", run_core},
    Command{"report", "print everything in a snapshot", run_report},
    Command{"owners", "show what keeps the memory alive", run_owners, true},
    Command{"leaks", "list the blocks that nothing leads to any more", run_leaks, true},
    Command{"types", "list what the memory holds, by type", run_types, true},
    Command{"objects", "list objects of Python and Ruby by class, PostgreSQL's memory", run_objects,
            true},
    Command{"why", "show what leads to one block", run_why, true},
    Command{"diff", "show what grew between snapshots", run_diff},
    Command{"inject", "load the tracker into a running process, or change its options", run_inject,
            true},
    Command{"eject", "disable the tracker in a running process", run_eject, true},
    Command{"run", "start a program with the tracker, from its first allocation on", run_run, false,
            true},
    Command{"stacks", "list the call stacks that allocated a tracked process's memory", run_stacks,
            true},
    Command{"watch", "follow a process's memory, and take snapshots as it grows", run_watch, true},
    Command{"top", "watch a process's memory, arenas and call stacks on the terminal", run_top,
            false, true},
    Command{"render", "draw the heap as a picture", run_render},
    Command{"view", "write one page that shows a snapshot in a browser", run_view},
    Command{"export", "convert a snapshot to a format that other tools read", run_export},
    Command{"share", "reduce a snapshot to what may leave the house", run_share},
    Command{"push", "send the call stacks of a tracked process to Pyroscope", run_push, true},
    Command{"trim", "make a process give free memory back to the system", run_trim, true},
    Command{"collect", "take snapshots of the configured targets that are due", run_collect, false,
            true},
    Command{"prune", "remove the collected snapshots that need not be kept", run_prune},
    Command{"history", "show how memory grew over many snapshots", run_history},
    Command{"doctor", "show what would prevent attaching, and what to do about it", run_doctor},
    Command{"completions", "print completions for bash, zsh or fish", run_completions},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace heapsnap
