#include "elf/elf_image.h"
