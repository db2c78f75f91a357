#include "report/tracked_start.h"

#include "analysis/program_build.h"

namespace heapsnap {

std::string tracked_start_command(const Process& process) {
  return is_postgres(process.exe) ? "heapsnap inject POSTMASTER" : "heapsnap run -- COMMAND";
}

std::string tracked_start_reason(const Process& process) {
  return is_postgres(process.exe)
             ? "load the tracker into the postmaster, whose PID is the first line of "
               "postmaster.pid; backends of new sessions then record from the start"
             : "start it under heapsnap";
}

std::string tracked_start_text(const Process& process) {
  return tracked_start_reason(process) + ": " + tracked_start_command(process);
}

}  // namespace heapsnap
