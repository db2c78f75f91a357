// What people read on standard error: an Error in three short lines, and notices.
//
// Where standard error is closed or full, it is lost, and nothing else is: the exit code tells.
#pragma once

#include <string>

#include "base/error.h"

namespace heapsnap {

void print_error(const Error& error);
// `text`: whole lines, or the line of progress; printable.
void print_notice(const std::string& text);

}  // namespace heapsnap
