// The same facts as the text report, for programs: one JSON object,
//   {"kind":"report","version":1,...}
// Numbers are exact bytes; addresses are strings "0x..."; keys are only ever added.
#pragma once

#include "report/report_input.h"
#include "report/writer.h"

namespace heapsnap {

void print_json_report(Writer& out, const ReportInput& input);

}  // namespace heapsnap
