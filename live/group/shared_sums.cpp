#include "live/group/shared_sums.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace orrery::live {
namespace {

constexpr std::size_t kLine = 64;  ///< bytes of a cache line, the unit of parts
/// Largest segment of Gloo's ring, in bytes.
constexpr std::size_t kGlooSegment = 1 << 20;
/// Elements that are added at once, so that the partial sum stays in the nearest cache.
constexpr std::size_t kTile = 2048;
/// Seals of the memory: no process can take it away from another one.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
/// Pause after which a waiting member looks for an interruption that has missed it.
constexpr std::chrono::milliseconds kLook{100};

[[noreturn]] void throw_problem(const char* action) {
  throw std::runtime_error(std::string(action) + ": " + std::strerror(errno));
}

[[noreturn]] void close_with_problem(int descriptor) {
  const int problem = errno;
  close(descriptor);
  errno = problem;
  throw_problem("shared memory");
}

/// Blocks while the word has the value, for at most kLook. Wakes at any time.
void wait_on_word(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec pause{0, std::chrono::nanoseconds(kLook).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &pause, nullptr, 0);
}

/// Returns true if the memory of a descriptor has all of kSeals. The kernel may have set others
/// (sysctl vm.memfd_noexec).
bool has_seals(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

/// Wakes all processes and threads that wait on the word.
void wake_word(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Returns true if a count, modulo 2^32, has reached another one.
bool has_reached(std::uint32_t count, std::uint32_t needed) {
  return static_cast<std::int32_t>(count - needed) >= 0;
}

std::size_t rounded_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Returns the elements of a chunk of Gloo's ring.
std::size_t chunk_elements(std::size_t elements, std::size_t element, std::size_t members) {
  const std::size_t bytes = elements * element;
  const std::size_t largest = std::max<std::size_t>(1, kGlooSegment / element) * element;
  const std::size_t least = std::max((bytes + largest - 1) / largest, 2 * members);
  const std::size_t segments = rounded_up(least, members);
  const std::size_t segment = rounded_up((bytes + segments - 1) / segments, element);
  return segments / members * segment / element;
}

/// Returns the sum of two numbers; integers wrap.
template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void add_pair(T* __restrict sum, const T* __restrict a, const T* __restrict b, std::size_t count) {
  for (std::size_t at = 0; at < count; ++at) sum[at] = sum_of(a[at], b[at]);
}

template <typename T>
void add_to(T* __restrict sum, const T* __restrict values, std::size_t count) {
  for (std::size_t at = 0; at < count; ++at) sum[at] = sum_of(values[at], sum[at]);
}

/// Returns a number that differs between the types of equal size.
template <typename T>
constexpr std::uint32_t type_code() {
  return sizeof(T) + (std::is_integral_v<T> ? 100 : 0);
}

}  // namespace

/// Count on which other members wait.
struct SharedSums::Counter {
  alignas(kLine) std::atomic<std::uint32_t> count = 0;
  std::atomic<std::uint32_t> waiting = 0;  ///< members that wait on the count
};

/// Size and type of an array, which differ between members by mistake.
struct SharedSums::Form {
  std::uint64_t bytes = 0;
  std::uint32_t type = 0;  ///< type_code() of an element
  bool operator==(const Form&) const = default;
};

/// State of one member in the shared memory, which starts with zeros.
struct SharedSums::Member {
  Counter begun;  ///< arrays that the member has begun
  Counter given;  ///< blocks whose values are in the member's slots
  Counter added;  ///< blocks of which the member's part of the sum is in its slots
  Counter taken;  ///< blocks whose sum the member has
  /// The two newest arrays that were begun, by their number modulo 2: a member may begin one array
  /// while another member still compares the one before.
  std::array<Form, 2> forms;
  std::atomic<bool> has_given_up = false;  ///< the member adds no more arrays in this memory
};

constexpr std::array<SharedSums::Counter SharedSums::Member::*, 4> SharedSums::kCounters{
    &Member::begun, &Member::given, &Member::added, &Member::taken};

/// Array that is being added.
template <typename T>
struct SharedSums::Array {
  std::span<const T> values;
  std::span<T> sum;
  std::size_t chunk = 1;  ///< elements of a chunk of Gloo's ring
};

std::unique_ptr<SharedSums> SharedSums::create_memory(const SharedSizes& sizes) {
  const int descriptor = memfd_create("orrery-sums", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) throw_problem("memfd_create");
  const auto size = static_cast<off_t>(bytes_of_memory(sizes));
  if (ftruncate(descriptor, size) != 0 || fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    close_with_problem(descriptor);
  }
  std::unique_ptr<SharedSums> made(new SharedSums(descriptor, 0, sizes));
  made->place_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor);
  return made;
}

std::unique_ptr<SharedSums> SharedSums::open_memory(const std::string& place, std::size_t own,
                                                    const SharedSizes& sizes) {
  const int descriptor = open(place.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw_problem(place.c_str());
  struct stat found{};
  const bool is_safe = has_seals(descriptor) && fstat(descriptor, &found) == 0 &&
                       static_cast<std::size_t>(found.st_size) == bytes_of_memory(sizes);
  if (!is_safe) {
    close(descriptor);
    throw std::runtime_error(place + ": expected memory of " +
                             std::to_string(bytes_of_memory(sizes)) +
                             " bytes from the first rank of the group, found another file");
  }
  return std::unique_ptr<SharedSums>(new SharedSums(descriptor, own, sizes));
}

SharedSums::SharedSums(int descriptor, std::size_t own, const SharedSizes& sizes)
    : own_(own), sizes_(sizes), descriptor_(descriptor) {
  bytes_ = bytes_of_memory(sizes);
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) close_with_problem(descriptor);
  memory_ = static_cast<std::byte*>(mapped);
}

SharedSums::~SharedSums() {
  munmap(memory_, bytes_);
  close(descriptor_);
}

SharedSums::Member& SharedSums::member(std::size_t at) const {
  return reinterpret_cast<Member*>(memory_)[at];
}

std::size_t SharedSums::bytes_of_memory(const SharedSizes& sizes) {
  // Behind the states: slots of each member's values, then the slots of sums.
  return bytes_of_states(sizes.members) + (sizes.members + 1) * sizes.slots * sizes.block_bytes;
}

std::size_t SharedSums::bytes_of_states(std::size_t members) {
  return rounded_up(members * sizeof(Member), 4096);
}

template <typename T>
T* SharedSums::values_slot(std::size_t at, std::uint32_t block) const {
  const std::size_t slots = at * sizes_.slots + (blocks_ + block) % sizes_.slots;
  return reinterpret_cast<T*>(memory_ + bytes_of_states(sizes_.members) +
                              slots * sizes_.block_bytes);
}

template <typename T>
SharedSums::Range SharedSums::range_of(const Array<T>& array, std::uint32_t block) const {
  const std::size_t size = sizes_.block_bytes / sizeof(T);
  return {block * size, std::min(array.values.size(), (block + 1) * size)};
}

void SharedSums::raise_counter(Counter& counter, std::uint32_t count) {
  counter.count.store(count);
  if (counter.waiting.load() > 0) wake_word(counter.count);
}

void SharedSums::wait_for_count(std::size_t at, Counter Member::* which, std::uint32_t count) {
  Member& other = member(at);
  Counter& counter = other.*which;
  if (has_reached(counter.count.load(std::memory_order_acquire), count)) return;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    counter.waiting.fetch_add(1);
    const bool may_come = !is_interrupted_ && !other.has_given_up;
    const std::uint32_t seen = counter.count.load();
    if (may_come && !has_reached(seen, count)) wait_on_word(counter.count, seen);
    counter.waiting.fetch_sub(1);
    if (is_interrupted_) throw SumInterrupted();
    if (has_reached(counter.count.load(), count)) return;
    if (other.has_given_up) {
      give_up("all_reduce: rank " + std::to_string(at) +
              " of the group has given up: an all_reduce of that rank has timed out");
    }
    if (std::chrono::steady_clock::now() - begin > timeout_) {
      give_up("Timed out after " + std::to_string(timeout_.count()) + " ms waiting for rank " +
              std::to_string(at) + " of the group in an all_reduce");
    }
  }
}

void SharedSums::wait_for_others(Counter Member::* which, std::uint32_t count) {
  for (std::size_t at = 0; at < sizes_.members; ++at) {
    if (at != own_) wait_for_count(at, which, count);
  }
}

void SharedSums::give_up(const std::string& problem) {
  Member& self = member(own_);
  self.has_given_up = true;
  for (const auto which : kCounters) wake_word((self.*which).count);
  throw std::runtime_error(problem);
}

void SharedSums::interrupt_sum() {
  is_interrupted_ = true;
  for (std::size_t at = 0; at < sizes_.members; ++at) {
    for (const auto which : kCounters) wake_word((member(at).*which).count);
  }
}

void SharedSums::begin_array(std::size_t bytes, std::uint32_t type) {
  if (is_interrupted_) throw SumInterrupted();
  Member& self = member(own_);
  if (self.has_given_up) {
    throw std::runtime_error(
        "all_reduce: expected no error in an earlier all_reduce of the group, found a timeout; "
        "create a new group");
  }
  const Form own{bytes, type};
  self.forms[++arrays_ % 2] = own;
  raise_counter(self.begun, arrays_);
  wait_for_others(&Member::begun, arrays_);
  for (std::size_t at = 0; at < sizes_.members; ++at) {
    const Form& other = member(at).forms[arrays_ % 2];
    if (other == own) continue;
    throw std::runtime_error("all_reduce: expected equal tensors at all ranks, found " +
                             std::to_string(bytes) + " bytes at rank " + std::to_string(own_) +
                             " of the group and " + std::to_string(other.bytes) +
                             " bytes, or another type, at rank " + std::to_string(at));
  }
}

SharedSums::Range SharedSums::part_of(const Range& block, std::size_t element) const {
  const std::size_t unit = kLine / element;
  const std::size_t units = rounded_up(block.end - block.begin, unit) / unit;
  const auto edge = [&](std::size_t at) {
    return std::min(block.end, block.begin + units * at / sizes_.members * unit);
  };
  return {edge(own_), edge(own_ + 1)};
}

template <typename T>
void SharedSums::give_block(const Array<T>& array, std::uint32_t block) {
  wait_for_others(&Member::added, blocks_ + block + 1 - static_cast<std::uint32_t>(sizes_.slots));
  const Range range = range_of(array, block);
  T* const slot = values_slot<T>(own_, block);
  const T* const values = array.values.data();
  const auto give = [&](std::size_t begin, std::size_t end) {
    std::copy(values + begin, values + end, slot + (begin - range.begin));
  };
  const Range own = part_of(range, sizeof(T));
  give(range.begin, own.begin);
  give(own.end, range.end);
  raise_counter(member(own_).given, blocks_ + block + 1);
}

template <typename T>
void SharedSums::add_block(const Array<T>& array, std::uint32_t block) {
  wait_for_others(&Member::given, blocks_ + block + 1);
  wait_for_others(&Member::taken, blocks_ + block + 1 - static_cast<std::uint32_t>(sizes_.slots));
  const std::size_t members = sizes_.members;
  const Range range = range_of(array, block), own = part_of(range, sizeof(T));
  const auto values_of = [&](std::size_t at, std::size_t element) {
    return at == own_ ? array.values.data() + element
                      : values_slot<T>(at, block) + (element - range.begin);
  };
  std::size_t end = 0;
  for (std::size_t begin = own.begin; begin < own.end; begin = end) {
    const std::size_t chunk = begin / array.chunk;
    end = std::min({own.end, begin + kTile, (chunk + 1) * array.chunk});
    T* const sum = array.sum.data() + begin;
    const auto source = [&](std::size_t turn) {  // member chunk - 1 first, member chunk last
      return values_of((chunk + 2 * members - 1 - turn) % members, begin);
    };
    add_pair(sum, source(1), source(0), end - begin);
    for (std::size_t turn = 2; turn < members; ++turn) add_to(sum, source(turn), end - begin);
    std::copy(sum, sum + (end - begin), values_slot<T>(members, block) + (begin - range.begin));
  }
  raise_counter(member(own_).added, blocks_ + block + 1);
}

template <typename T>
void SharedSums::take_block(const Array<T>& array, std::uint32_t block) {
  wait_for_others(&Member::added, blocks_ + block + 1);
  const Range range = range_of(array, block);
  const Range own = part_of(range, sizeof(T));
  const T* const slot = values_slot<T>(sizes_.members, block);
  std::copy(slot, slot + (own.begin - range.begin), array.sum.data() + range.begin);
  std::copy(slot + (own.end - range.begin), slot + (range.end - range.begin),
            array.sum.data() + own.end);
  raise_counter(member(own_).taken, blocks_ + block + 1);
}

template <typename T>
void SharedSums::add_values(std::span<const T> values, std::span<T> sum,
                            std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  begin_array(values.size_bytes(), type_code<T>());
  const Array<T> array{values, sum, chunk_elements(values.size(), sizeof(T), sizes_.members)};
  const std::size_t per_block = sizes_.block_bytes / sizeof(T);
  const auto count = static_cast<std::uint32_t>((values.size() + per_block - 1) / per_block);
  for (std::uint32_t step = 0; step < count + 2; ++step) {
    if (step < count) give_block(array, step);
    if (step >= 1 && step <= count) add_block(array, step - 1);
    if (step >= 2) take_block(array, step - 2);
  }
  blocks_ += count;
}

template void SharedSums::add_values(std::span<const float>, std::span<float>,
                                     std::chrono::milliseconds);
template void SharedSums::add_values(std::span<const double>, std::span<double>,
                                     std::chrono::milliseconds);
template void SharedSums::add_values(std::span<const std::int32_t>, std::span<std::int32_t>,
                                     std::chrono::milliseconds);
template void SharedSums::add_values(std::span<const std::int64_t>, std::span<std::int64_t>,
                                     std::chrono::milliseconds);

}  // namespace orrery::live
