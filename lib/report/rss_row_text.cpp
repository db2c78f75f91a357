#include "report/rss_row_text.h"

namespace heapsnap {

const char* rss_row_text(RssRow row) {
  switch (row) {
    case RssRow::kProgram: return "used by the program (malloc)";
    case RssRow::kMmapped: return "used by the program (mmapped chunks)";
    case RssRow::kOverhead: return "malloc's own structures and headers";
    case RssRow::kTcache: return "free in thread caches (tcache)";
    case RssRow::kFastbin: return "free in fastbins";
    case RssRow::kBins: return "free in bins";
    case RssRow::kTop: return "free in top chunks";
    case RssRow::kUnwalked: return "heap that could not be walked";
    case RssRow::kStacks: return "thread stacks";
    case RssRow::kFiles: return "libraries and other mapped files";
    case RssRow::kFileData: return "private pages of files (.data, .bss)";
    case RssRow::kShared: return "shared memory";
    case RssRow::kTracker: return "heapsnap's tracker";
    case RssRow::kPythonObjects: return "Python objects and their buffers";
    case RssRow::kPythonPools: return "free in Python's pools";
    case RssRow::kPythonArenas: return "free in Python's arenas";
    case RssRow::kRubyObjects: return "Ruby objects (slots in use)";
    case RssRow::kRubyPages: return "free slots in Ruby's pages";
    case RssRow::kRubyFreePages: return "free pages of Ruby";
    case RssRow::kRubyTransient: return "Ruby's transient heap (young objects)";
    case RssRow::kOtherAnonymous: return "other anonymous memory";
    case RssRow::kUnknown: return "heap in an unknown state";
  }
  return "";
}

}  // namespace heapsnap
