// What the rows of the account of resident memory are, in the words of docs/vocabulary.md.

export interface RowText { title: string; what: string; group: "used" | "free" | "other"; see?: string; seeTitle?: string }

export const rowTexts: Record<string, RowText> = {
  used: { title: "used by the program (malloc)", group: "used", see: "owners", seeTitle: "who keeps it",
          what: "Blocks that the program asked malloc for and has not freed." },
  mmapped: { title: "used by the program (mmapped chunks)", group: "used", see: "sizes", seeTitle: "the largest blocks",
             what: "Blocks so large that malloc made a mapping of its own for each. Freed ones go back to the system at once." },
  overhead: { title: "malloc's own structures and headers", group: "used",
              what: "The size word before each block, and malloc's tables. Many small blocks make it grow." },
  tcache: { title: "free in thread caches (tcache)", group: "free", see: "arenas", seeTitle: "by arena",
            what: "Freed blocks that each thread keeps for itself, to use them again without a lock." },
  fastbin: { title: "free in fastbins", group: "free", see: "arenas", seeTitle: "by arena",
             what: "Small freed blocks that malloc has not joined with their neighbours yet." },
  bins: { title: "free in bins", group: "free", see: "map", seeTitle: "where it lies",
          what: "Freed memory that malloc keeps to use again. It counts as the process's, although the program does not use it." },
  top: { title: "free in top chunks", group: "free", see: "arenas", seeTitle: "by arena",
         what: "Free memory at the end of an arena, from which new blocks are cut." },
  unwalked: { title: "malloc's, not divided into chunks", group: "other", what: "The heap is damaged there, so that chunks cannot be told apart." },
  stacks: { title: "thread stacks", group: "other", what: "Local variables and return addresses of the threads." },
  files: { title: "libraries and other mapped files", group: "other",
           what: "Code and constants read from files. Other processes share most of these pages." },
  file_data: { title: "private pages of files (.data, .bss)", group: "other", what: "Variables of libraries and of the program: pages of mapped files that the process has written to, and the program's .bss." },
  shared: { title: "shared memory", group: "other", what: "Memory that several processes may share." },
  tracker: { title: "heapsnap's tracker", group: "other", what: "Tables of the allocation tracker, which heapsnap itself has put there." },
  python_objects: { title: "Python objects and their buffers", group: "other",
                    what: "Slots in use of the Python interpreter's pools. heapsnap objects lists them by class." },
  python_pools: { title: "free in Python's pools", group: "other",
                  what: "Free slots of pools that have used ones, and the pools' headers." },
  python_arenas: { title: "free in Python's arenas", group: "other",
                   what: "Pools without a used slot. An arena goes back to the system when it has no object left." },
  ruby_objects: { title: "Ruby objects (slots in use)", group: "other",
                  what: "Slots in use of the pages of Ruby's heap. heapsnap objects lists them by class." },
  ruby_pages: { title: "free slots in Ruby's pages", group: "other",
                what: "Free slots of pages that have used ones, and the pages' headers." },
  ruby_free_pages: { title: "free pages of Ruby", group: "other", what: "Pages of Ruby's heap without a used slot." },
  ruby_transient: { title: "Ruby's transient heap (young objects)", group: "other",
                    what: "Where buffers of young arrays, hashes and objects lie. It does not shrink, and stays below 32 MiB." },
  other_anonymous: { title: "other anonymous memory", group: "other",
                     what: "Memory that the program mapped without malloc: other allocators, language runtimes, JIT code." },
  unknown: { title: "chunks in pages of unknown state", group: "other", what: "The kernel did not say whether these pages are in memory." },
};

export const groupTexts = {
  used: "Used through malloc",
  free: "Free, but kept by malloc",
  other: "Not malloc's",
};
