// An Error as people see it: three short lines on standard error.
#pragma once

#include "base/error.h"

namespace heapsnap {

void print_error(const Error& error);

}  // namespace heapsnap
