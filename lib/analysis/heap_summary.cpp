#include "snapshot/metadata.h"
