// Files of a journal: the current one, and during a rewrite the next one. Two threads use them, one
// for appends and one for the rewrite, so that a slow rewrite delays no append.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "live/run/files/file_writer.hpp"

namespace orrery::live {

/// Owner of a file descriptor.
class OpenFile {
 public:
  /// Takes ownership of `file`, which may be -1: none.
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return file_; }

 private:
  const int file_;
};

/// Current and next file of a journal. While a rewrite is being prepared, the records that are
/// appended to the current file are kept for the next one. From then on each record is appended to
/// both, so that the path names a complete journal before and after the rename, however long the
/// rename takes. Thread-safe: append_bytes() is called by one thread at a time, rewrite() by
/// another.
class JournalFiles {
 public:
  JournalFiles(std::string path, std::shared_ptr<OpenFile> current, FileCalls calls)
      : path_(std::move(path)), calls_(std::move(calls)), current_(std::move(current)) {}

  /// Appends bytes to the current file, and to the next one if there is one. Returns 0 or the error
  /// number of a failed write.
  int append_bytes(const std::string& bytes);

  /// Begins a rewrite: bytes that are appended from now on belong into the next file, too. Call
  /// between two appends, and only while no rewrite is pending.
  void begin_rewrite();
  /// Writes the next file, with `beginning` and the bytes since begin_rewrite(), and renames it to
  /// the path, once `may_rename` returns true. Keeps the current file if the next one cannot be
  /// written or renamed.
  void rewrite(const std::string& beginning, const std::function<bool()>& may_rename);
  /// Returns once, after the end of a rewrite, whether the next file has replaced the current one;
  /// nothing before the end.
  std::optional<bool> take_outcome();

 private:
  /// Creates the next file; null if that is impossible. Never follows a link.
  std::shared_ptr<OpenFile> create_next() const;
  /// Writes the bytes since begin_rewrite() into `next`, until append_bytes() writes them into
  /// both. Returns false if a write fails.
  bool catch_up(const std::shared_ptr<OpenFile>& next);
  /// Ends a rewrite.
  void end_rewrite(bool is_replaced);

  const std::string path_;
  const FileCalls calls_;
  std::mutex mutex_;  // Guards the members below.
  std::shared_ptr<OpenFile> current_, next_;
  bool is_rewriting_ = false;
  std::string missing_;  ///< Bytes that the next file lacks.
  std::optional<bool> outcome_;
};

}  // namespace orrery::live
