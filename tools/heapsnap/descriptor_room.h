// Room for the files that heapsnap opens.
#pragma once

namespace heapsnap {

// Throws Error{kNotPermitted} when this process could not open as many files as a command may need
// at once. Without it, a lack of descriptors would look like whatever could not be opened: like a
// process that /proc hides, or a program without a C library.
void require_descriptor_room();

}  // namespace heapsnap
