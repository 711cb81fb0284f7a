#include "live/fabric/shared_memory.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <new>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kUnit = 8;  // messages begin at multiples of it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
/// Longest wait, which bounds the cost of a lost wake-up.
constexpr timespec kLongestWait{.tv_sec = 0, .tv_nsec = 100'000'000};

std::uint64_t rounded_up(std::uint64_t position) { return (position + kUnit - 1) & ~(kUnit - 1); }

void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

/// This boot of this machine, and the network that this process sees: ranks in two network
/// namespaces are as far apart as their network is.
std::string this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return boot.empty() || error ? "" : fmt::format("{} {}", boot, network.string());
}

}  // namespace

void Bell::ring() {
  ++count_;
  if (waiting_.load() > 0) futex(count_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::wait(std::uint32_t seen) {
  ++waiting_;
  if (count_.load() == seen) futex(count_, FUTEX_WAIT, seen, &kLongestWait);
  --waiting_;
}

std::span<std::byte> ByteRing::free_stretch() {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  const std::uint64_t used = written - read_.load(std::memory_order_acquire);
  if (used > kCapacity) return {};
  const std::size_t begin = written % kCapacity;
  const std::uint64_t room = kCapacity - rounded_up(used);  // includes the padding of the last unit
  return {bytes_ + begin, std::min<std::size_t>(room, kCapacity - begin)};
}

void ByteRing::mark_filled(std::size_t bytes, bool end_of_message) {
  const std::uint64_t to = written_.load(std::memory_order_relaxed) + bytes;
  written_.store(end_of_message ? rounded_up(to) : to, std::memory_order_release);
}

std::span<const std::byte> ByteRing::filled_stretch() const {
  const std::uint64_t read = read_.load(std::memory_order_relaxed);
  const std::uint64_t there = written_.load(std::memory_order_acquire) - read;
  if (there > kCapacity) return {};
  const std::size_t begin = read % kCapacity;
  return {bytes_ + begin, std::min<std::size_t>(there, kCapacity - begin)};
}

void ByteRing::mark_emptied(std::size_t bytes, bool end_of_message) {
  const std::uint64_t to = read_.load(std::memory_order_relaxed) + bytes;
  read_.store(end_of_message ? rounded_up(to) : to, std::memory_order_release);
}

struct Board::Head {
  Bell bell;
  std::uint64_t mark = 0;
  alignas(64) ByteRing rings[1];  // one for each rank, the owner's own unused

  static std::size_t size(std::uint32_t ranks) {
    return sizeof(Head) + (ranks - 1) * sizeof(ByteRing);
  }
};

Board::Board(int descriptor, std::size_t size) : descriptor_(descriptor), size_(size) {
  const int flags = descriptor < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
}

Board::Board(std::uint32_t ranks)
    : Board(memfd_create("orrery-board", MFD_CLOEXEC | MFD_ALLOW_SEALING), Head::size(ranks)) {
  // Pages nobody touches take no memory: rings to ranks that are elsewhere cost nothing.
  if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) memory_ = nullptr;
  if (memory_ == nullptr) {
    throw Error(ErrorKind::environment, "there is no memory for the links between ranks");
  }
  Head* const head = new (memory_) Head;
  const bool sealed = descriptor_ >= 0 && fcntl(descriptor_, F_ADD_SEALS, kSeals) == 0;
  const bool marked = getrandom(&head->mark, sizeof head->mark, 0) == sizeof head->mark;
  place_ = {.machine = sealed && marked ? this_machine() : "",
            .pid = getpid(),
            .descriptor = descriptor_,
            .mark = head->mark};
}

std::unique_ptr<Board> Board::open(const BoardPlace& place, std::uint32_t ranks) {
  if (place.machine.empty() || place.machine != this_machine()) return nullptr;
  const std::string path = fmt::format("/proc/{}/fd/{}", place.pid, place.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<Board> board;
  struct stat found{};
  // Sealed: nobody can take the memory away under us.
  const bool safe = fcntl(descriptor, F_GET_SEALS) == kSeals && fstat(descriptor, &found) == 0 &&
                    static_cast<std::size_t>(found.st_size) == Head::size(ranks);
  if (!safe) {
    close(descriptor);
    return nullptr;
  }
  board.reset(new Board(descriptor, Head::size(ranks)));
  if (board->memory_ == nullptr) return nullptr;
  board->place_ = place;
  const bool right = reinterpret_cast<const Head*>(board->memory_)->mark == place.mark;
  return right ? std::move(board) : nullptr;
}

Board::~Board() {
  if (memory_ != nullptr) munmap(memory_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

Bell& Board::bell() { return reinterpret_cast<Head*>(memory_)->bell; }
ByteRing& Board::ring_to(std::uint32_t rank) {
  return reinterpret_cast<Head*>(memory_)->rings[rank];
}

}  // namespace orrery::live
