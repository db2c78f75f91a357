// Resident memory over time as a PNG file.
//
//   red dots      snapshots, those of every other run darker
//   black line    the growth that was fitted, within the last run
//   grey bars     restarts            blue bars   upgrades of the program
//   orange line   the level at which the memory limit is reached, where the history knows it
//
// The left edge has the greatest value of the scale, the bottom the times of the first and the last
// snapshot.
#pragma once

#include "analysis/growth_history.h"
#include "report/writer.h"

namespace heapsnap {

// `width` and `height` in pixels, at least 200 by 100. Throws Error{kOutput}.
void write_history_picture(const GrowthHistory& history, unsigned width, unsigned height,
                           Writer& out);

}  // namespace heapsnap
