#include "report/tracked_start.h"

#include "analysis/program_build.h"

namespace heapsnap {

std::string tracked_start_command(const Process& process, const std::string& options) {
  if (is_postgres(process.exe)) return "heapsnap inject POSTMASTER";
  return "heapsnap run " + (options.empty() ? "" : options + " ") + "-- COMMAND";
}

std::string tracked_start_reason(const Process& process) {
  return is_postgres(process.exe)
             ? "load the tracker into the postmaster, whose PID is the first line of "
               "postmaster.pid; backends of new sessions then record from the start"
             : "start it under heapsnap";
}

std::string tracked_start_text(const Process& process, const std::string& options) {
  return tracked_start_reason(process) + ": " + tracked_start_command(process, options);
}

}  // namespace heapsnap
