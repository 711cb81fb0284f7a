// Sums of equal arrays of the members of a group, through memory that their processes share. Used
// for the gradients of a program whose ranks run on one machine: an array is read and written once,
// where sockets copy it into the kernel and out again. Plain C++ without PyTorch, compiled into the
// user's program.
//
// An array is cut into blocks. Of each block every member adds one part: it reads this part of the
// others' values from their slots, and writes the sum to its slot of sums, from which the others
// take it. Counters of the steps of each member, on which the others wait, order the accesses:
// while a block is summed, the next one is written. Example: of two members and a block of 1 MiB,
// each writes 512 KiB of values and 512 KiB of sums.
//
// The additions have the order of Gloo's ring (gloo/allreduce.cc, commit cc44198), so that sums are
// those of Gloo, bit for bit: of the chunk c of n, values of member c - 1, then of c - 2, and so on
// down to c, modulo n. Gloo cuts an array into n chunks of whole segments of at most 1 MiB.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

namespace orrery::live {

/// End of a sum because of interrupt_sum().
struct SumInterrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// Sizes of the shared memory.
struct SharedSizes {
  std::size_t members = 2;            ///< number of members, at least 2
  std::size_t block_bytes = 1 << 20;  ///< a multiple of 64
  /// blocks in flight, at least 2; a power of two, because blocks are counted modulo 2^32
  std::size_t slots = 4;
};

/// Memory of one membership epoch, as one member sees it. All members call add_values() with arrays
/// of equal sizes and types in the same order, each from one thread.
class SharedSums {
 public:
  /// Creates the memory for the first member. Throws std::runtime_error if the kernel refuses it.
  static std::unique_ptr<SharedSums> create_memory(const SharedSizes& sizes);
  /// Opens the memory that the first member has created at `place`, for member `own`. Throws
  /// std::runtime_error if this process cannot reach it, or if it has other sizes.
  static std::unique_ptr<SharedSums> open_memory(const std::string& place, std::size_t own,
                                                 const SharedSizes& sizes);
  ~SharedSums();
  SharedSums(const SharedSums&) = delete;
  SharedSums& operator=(const SharedSums&) = delete;

  /// Returns the path by which processes of the same user open the memory, as long as this object
  /// of the first member exists; empty for other members. The memory has no name that could be left
  /// behind.
  const std::string& memory_place() const { return place_; }

  /// Sets `sum` to the sum of the members' `values`, which are not empty and are elsewhere. Blocks
  /// until all members have called and `sum` is complete. Throws SumInterrupted after
  /// interrupt_sum(). Throws std::runtime_error at all members if their arrays differ in size or
  /// type; later arrays are added. Throws std::runtime_error if another member has done nothing for
  /// `timeout`; then this member adds no later arrays, and members that wait for it throw too.
  /// T: float, double, int32_t or int64_t.
  template <typename T>
  void add_values(std::span<const T> values, std::span<T> sum, std::chrono::milliseconds timeout);

  /// Ends the add_values() of this member that runs, and all later ones. Any thread.
  void interrupt_sum();

 private:
  struct Counter;
  struct Form;
  struct Member;
  template <typename T>
  struct Array;
  /// Elements [begin, end) of an array.
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  SharedSums(int descriptor, std::size_t own, const SharedSizes& sizes);
  static std::size_t bytes_of_states(std::size_t members);
  static std::size_t bytes_of_memory(const SharedSizes& sizes);
  Member& member(std::size_t at) const;
  /// Returns the slot of a block of the present array: of a member's values, or of the sums for
  /// `at` = number of members.
  template <typename T>
  T* values_slot(std::size_t at, std::uint32_t block) const;
  template <typename T>
  Range range_of(const Array<T>& array, std::uint32_t block) const;
  /// Returns the part of a block that this member adds: whole cache lines, equally many at all
  /// members but one more at some. `element`: bytes of an element.
  Range part_of(const Range& block, std::size_t element) const;
  void raise_counter(Counter& counter, std::uint32_t count);
  /// Blocks until the counter `which` of member `at` has reached `count`.
  void wait_for_count(std::size_t at, Counter Member::* which, std::uint32_t count);
  /// Ends the arrays of this member: wakes the members that wait for it, and throws
  /// std::runtime_error.
  [[noreturn]] void give_up(const std::string& problem);
  /// Blocks until the counters `which` of all other members have reached `count`.
  void wait_for_others(Counter Member::* which, std::uint32_t count);
  void begin_array(std::size_t bytes, std::uint32_t type);
  template <typename T>
  void give_block(const Array<T>& array, std::uint32_t block);
  template <typename T>
  void add_block(const Array<T>& array, std::uint32_t block);
  template <typename T>
  void take_block(const Array<T>& array, std::uint32_t block);

  static const std::array<Counter Member::*, 4> kCounters;

  const std::size_t own_;
  const SharedSizes sizes_;
  std::string place_;
  int descriptor_ = -1;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t arrays_ = 0, blocks_ = 0;  // counts of all ended arrays, modulo 2^32
  std::chrono::milliseconds timeout_{};
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace orrery::live
