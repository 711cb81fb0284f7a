// Comma-separated values as RFC 4180 has them: quoted fields with commas, doubled quotes and line
// ends inside; LF or CRLF; a byte order mark is skipped. Also tables with other marks between their
// fields, which know no quotes. Knows the place of every field. Called by the readers of job traces
// and of published runs. One thread per reader; copies only the quoted fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The text of a file, unpacked if it is gzip. Throws bad_input: a folder, unreadable, damaged or
/// cut short, more than 1 GiB unpacked.
std::string read_packed_text(const std::string& path);

/// The same piece by piece.
class PackedFileReader {
 public:
  explicit PackedFileReader(const std::string& path);
  ~PackedFileReader();
  PackedFileReader(const PackedFileReader&) = delete;
  PackedFileReader& operator=(const PackedFileReader&) = delete;
  /// Appends some more; false at the end.
  bool more(std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// About how many bytes a regular file holds, unpacked; 0: not known.
std::uint64_t unpacked_size(const std::string& path);

/// What stands between fields. Blanks: one or more of them, and before the first.
enum class Separator : char { comma = ',', bar = '|', tab = '\t', blanks = ' ' };

class CsvReader {
 public:
  /// `path` is for messages. Both are borrowed and must outlive the reader.
  /// `first_line`: of the file, that `text` begins with; rows before it were read before.
  CsvReader(const std::string& path, std::string_view text, Separator mark = Separator::comma,
            int first_line = 1);

  /// The next row's fields, valid until the next call; false at the end. Throws bad_input on a
  /// quote that is never closed or stands where none belongs.
  bool next_row(std::vector<std::string_view>& fields);

  int line() const { return row_line_; }  ///< in which the row begins, from 1
  bool is_blank() const { return row_.empty(); }

  /// Throws bad_input at a field of the row; at the row's beginning if it has no such field.
  [[noreturn]] void fail(std::size_t field, const std::string& message) const;
  [[noreturn]] void fail_row(const std::string& message) const;

 private:
  std::string_view take_field();
  std::string_view take_quoted();
  void skip_blanks();
  [[noreturn]] void fail_at(std::size_t offset, const std::string& message) const;

  const std::string& path_;
  std::string_view text_;
  const Separator mark_;
  std::size_t at_ = 0, row_begin_ = 0;
  int line_, row_line_ = 0;
  std::string_view row_;
  std::vector<std::size_t> begins_;   ///< offsets of the row's fields
  std::deque<std::string> unquoted_;  ///< fields with doubled quotes
};

/// `text` as a field: in quotes if it must be.
std::string csv_field(std::string_view text);

}  // namespace orrery
