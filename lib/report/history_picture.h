// Resident memory over time as a PNG file.
//
//   dots          snapshots; those of every other run have another colour
//   black line    the growth that was fitted, within the last run
//   grey bars     restarts            pink bars   upgrades of the program
//   orange line   the level at which the memory limit is reached, where the history knows it
//
// The title says whose memory it is, the legend what the lines are; the left edge has the greatest
// value of the scale, the bottom the times of the first and the last snapshot.
#pragma once

#include "report/history_report.h"
#include "report/writer.h"

namespace heapsnap {

// `width` and `height` in pixels, at least 200 by 100. Throws Error{kOutput}.
void write_history_picture(const NamedHistory& history, unsigned width, unsigned height,
                           Writer& out);

}  // namespace heapsnap
