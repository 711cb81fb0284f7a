// The short way between two ranks of one machine: memory that both have mapped. Each rank owns a
// Board: a bell that wakes it, and for each other rank a ring of bytes that it fills and the other
// empties, where it lies. The others open it through /proc by what the owner says of it over the
// (authenticated) stream between them; whoever cannot is on another machine, in another network
// namespace or container, or has no right to, and keeps to the stream. The board has no name, so
// nothing is left behind by whoever is killed. Nothing is encrypted: it never leaves the machine,
// and who could read it could read the processes' own memory.
//
// A ring has one writer and one reader thread; bells may be rung by all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace orrery::live {

/// Counts what has happened. A waiter reads the count, looks for work, and waits for a higher one.
class Bell {
 public:
  std::uint32_t count() const { return count_.load(); }
  void ring();
  /// Returns when the count is another than `seen`, or now and then without a reason.
  void wait(std::uint32_t seen);

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> waiting_{0};
};

/// A queue of bytes. Messages are read in the units in which they were written; each begins at a
/// multiple of eight.
class ByteRing {
 public:
  static constexpr std::size_t kCapacity = 512 * 1024;

  /// Free bytes in one stretch, for the writer, and how far it has filled them.
  std::span<std::byte> free_stretch();
  void filled(std::size_t bytes, bool end_of_message);
  /// Filled bytes in one stretch, for the reader, and how far it has emptied them. Empty for ever
  /// if the writer has broken the ring.
  std::span<const std::byte> filled_stretch() const;
  void emptied(std::size_t bytes, bool end_of_message);

 private:
  alignas(64) std::atomic<std::uint64_t> written_{0};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  alignas(64) std::byte bytes_[kCapacity];
};

/// Where another process of this machine finds a board.
struct BoardPlace {
  std::string machine;  ///< this boot of it and its network; empty: the board cannot be shared
  std::int64_t pid = 0;
  std::int32_t descriptor = -1;
  std::uint64_t mark = 0;  ///< written on the board: the right one
};

class Board {
 public:
  /// A rank's own. Throws an environment Error if there is no memory.
  explicit Board(std::uint32_t ranks);
  /// Another rank's; nothing if it cannot be shared with this process.
  static std::unique_ptr<Board> open(const BoardPlace& place, std::uint32_t ranks);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  const BoardPlace& place() const { return place_; }
  Bell& bell();
  ByteRing& ring_to(std::uint32_t rank);

 private:
  struct Head;
  Board(int descriptor, std::size_t size);

  BoardPlace place_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace orrery::live
