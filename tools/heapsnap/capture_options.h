// What attach and core have in common: where the snapshot goes, what it contains, what is printed
// about it.
#pragma once

#include <string>

#include "target/process.h"
#include "tools/capture/capture.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/progress_line.h"
#include "tools/heapsnap/report_output.h"

namespace heapsnap {

struct CaptureArguments {
  std::string output;
  bool force = false;
  bool literal_name = false;
  bool contents = false;
  std::string references;     // auto, yes, no; empty: auto
  std::string runtimes;       // the same
  std::string memory_budget;  // a size; empty: a tenth of what is free
  bool with_arguments = false;
  bool no_debug_files = false;
  bool ask_debuginfod = false;
  bool no_symbols = false;
  bool quiet = false;
  bool verbose = false;
  ReportStyle report;
};

void add_capture_options(OptionParser& parser, CaptureArguments& arguments);

// Checks them and expands the name of the file; `process` and `taken_at_ns` are what it may speak
// of.
CaptureOptions to_capture_options(const CaptureArguments& arguments, const Process& process,
                                  int64_t taken_at_ns, const std::string& sysroot = {});

// While it lives, a terminal shows how far a capture with these options is.
class CaptureProgress {
 public:
  CaptureProgress(CaptureOptions& options, bool quiet);
  CaptureProgress(const CaptureProgress&) = delete;
  CaptureProgress& operator=(const CaptureProgress&) = delete;

 private:
  ProgressLine walk_;
  ProgressLine references_;
};

// Says what was captured: the first screen of the report, or one line on standard error where the
// snapshot itself went to standard output. Gives the exit code: kUnsupported when the process has
// no heap that heapsnap walks, with its memory accounted for by mapping.
int announce_capture(const CaptureResult& result, const CaptureOptions& options,
                     const CaptureArguments& arguments);

}  // namespace heapsnap
