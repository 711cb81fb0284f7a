// Memory for tables that a simulation accesses at random. With pages of 4 KiB, each access to a
// table of hundreds of megabytes misses the translation buffer of the processor, too. Used by
// sim/estimates for tables of all ranks, links or activities.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace orrery {

/// Allocator that asks the system for huge pages of 2 MiB, from blocks of 1 MiB on; smaller blocks,
/// and systems without huge pages, have the usual memory. Blocks with huge pages begin at a
/// multiple of their size and are rounded up to a multiple. Stateless; thread-safe.
///
/// For example, a table of 30 MiB has 15 pages instead of 7,680.
template <typename T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <typename Other>
  HugePages(const HugePages<Other>&) {}  // NOLINT: allocators convert

  /// Throws std::bad_alloc.
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kLeast) return std::allocator<T>().allocate(count);
    const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* const block = std::aligned_alloc(kPage, rounded);
    if (block == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(block, rounded, MADV_HUGEPAGE);  // refused: the block has the usual pages
#endif
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t count) {
    if (count * sizeof(T) < kLeast) return std::allocator<T>().deallocate(block, count);
    std::free(block);
  }
  bool operator==(const HugePages&) const { return true; }

 private:
  static constexpr std::size_t kLeast = std::size_t{1} << 20, kPage = std::size_t{2} << 20;
};

/// Vector in huge pages.
template <typename T>
using HugeVector = std::vector<T, HugePages<T>>;

}  // namespace orrery
