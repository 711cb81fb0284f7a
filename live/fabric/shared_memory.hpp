// Shared memory between two ranks of one machine. Each rank owns a Board: a bell that wakes it, and
// for each other rank a ring of bytes that the rank fills and the other empties. The others open it
// through /proc by its description on the (authenticated) stream between them; a peer on another
// machine, in another network namespace or container, or without the right to open it keeps using
// the stream. The board has no name, so a killed process leaves nothing behind. Nothing is
// encrypted: the data never leaves the machine, and a reader of it could read the processes' own
// memory. A ring has one writer thread and one reader thread; any thread may ring a bell.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace orrery::live {

/// Counter of events. A waiter reads the count, looks for work, and waits for a higher count.
class Bell {
 public:
  /// Returns the count.
  std::uint32_t count() const { return count_.load(); }
  /// Increments the count and wakes the waiters.
  void ring();
  /// Returns when the count differs from `seen`, or spuriously, after at most 100 ms.
  void wait(std::uint32_t seen);

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> waiting_{0};
};

/// Queue of bytes. Both sides know the length of every message; each message begins at a multiple
/// of eight.
class ByteRing {
 public:
  static constexpr std::size_t kCapacity = 512 * 1024;

  /// Returns free bytes in one stretch, for the writer; empty if the ring is full, or if the reader
  /// has broken the ring.
  std::span<std::byte> free_stretch();
  /// Records how many bytes of free_stretch() the writer has filled, which is not checked.
  /// `end_of_message`: the next message begins at the next multiple of eight; the reader must say
  /// the same.
  void mark_filled(std::size_t bytes, bool end_of_message);
  /// Returns filled bytes in one stretch, for the reader, which may reach behind the end of a
  /// message; empty if the ring is empty. Always empty if the writer has broken the ring.
  std::span<const std::byte> filled_stretch() const;
  /// Records how many bytes of filled_stretch() the reader has emptied, which is not checked;
  /// `end_of_message` as in mark_filled().
  void mark_emptied(std::size_t bytes, bool end_of_message);

 private:
  alignas(64) std::atomic<std::uint64_t> written_{0};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  alignas(64) std::byte bytes_[kCapacity];
};

/// Description with which another process of this machine finds a board.
struct BoardPlace {
  std::string machine;  ///< boot id and network of the machine; empty: the board cannot be shared
  std::int64_t pid = 0;
  std::int32_t descriptor = -1;
  std::uint64_t mark = 0;  ///< number written on the board, for verification
};

/// Memory of one rank that its peers can map.
class Board {
 public:
  /// Allocates the own board of one of `ranks` ranks, at least 1. Throws an environment Error if no
  /// memory is available.
  explicit Board(std::uint32_t ranks);
  /// Returns another rank's board; null if this process cannot open it: another machine or network
  /// namespace, no right, another number of ranks, or no memory.
  static std::unique_ptr<Board> open(const BoardPlace& place, std::uint32_t ranks);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Returns the description for other processes.
  const BoardPlace& board_place() const { return place_; }
  /// Returns the bell of the rank that owns this board: the owner waits for the bell, and a peer
  /// rings it, through the board from open(), after the peer has filled or emptied a ring.
  Bell& bell();
  /// Returns the ring that the owner of this board fills and `rank` empties; `rank` < ranks is not
  /// checked.
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
