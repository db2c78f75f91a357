#include "platform/linux/frozen_process.h"
