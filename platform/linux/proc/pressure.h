// Pressure stall information of the machine (Documentation/accounting/psi.rst): the share of time
// in which some task waited for memory, for I/O or for a processor.
//
//   /proc/pressure/memory   some avg10=1.53 avg60=0.40 avg300=0.10 total=123456
//                           full avg10=...
#pragma once

#include <optional>
#include <string_view>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

// Percent of the last ten seconds, 0 to 100, from the line "some"; nullopt for any other text.
std::optional<double> parse_pressure(std::string_view text);

// nullopt where the kernel does not say: before 4.20, or with psi=0.
struct Pressure {
  std::optional<double> memory;
  std::optional<double> io;
  std::optional<double> processor;
};
Pressure read_pressure(const KernelFiles& files = {});

}  // namespace heapsnap
