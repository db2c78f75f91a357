#include "snapshot/snapshot_writer.h"
