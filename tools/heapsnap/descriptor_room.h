// Room for the files that heapsnap opens.
#pragma once

namespace heapsnap {

// Throws Error{kNotPermitted} when this process could not open as many files as a command may need
// at once. Without it, a lack of descriptors would look like whatever could not be opened: like a
// process that /proc hides, or a program without a C library.
void require_descriptor_room();

// Takes those of standard input, output and error that are closed, so that no file of heapsnap's
// gets their number and what is meant for them. Reading and writing them fails as before.
void take_standard_descriptors() noexcept;

}  // namespace heapsnap
