// The folder of this machine in a store.
#pragma once

#include <string>

namespace heapsnap {

std::string own_host_folder();

}  // namespace heapsnap
