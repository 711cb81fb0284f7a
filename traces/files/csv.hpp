// Comma-separated values as in RFC 4180: quoted fields with commas, doubled quotes and line ends
// inside; LF or CRLF; a byte order mark is skipped. Tables with other separators are read too; they
// have no quotes. Errors name the place of a field. Called by the readers of job traces and of
// published runs. One thread per reader; copies only fields with doubled quotes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Returns the text of a file, unpacked if it is gzip. Throws bad_input for a folder, an
/// unreadable, damaged or truncated file, or more than 1 GiB unpacked.
std::string read_packed_text(const std::string& path);

/// Reader of a file piece by piece, which unpacks gzip. For files that need not be in memory as a
/// whole.
class PackedFileReader {
 public:
  /// Opens the file. Throws bad_input for a folder or an unreadable file.
  explicit PackedFileReader(const std::string& path);
  ~PackedFileReader();
  PackedFileReader(const PackedFileReader&) = delete;
  PackedFileReader& operator=(const PackedFileReader&) = delete;
  /// Appends a piece to `text`. Returns false at the end, where no bytes remain to be appended and
  /// `text` is unchanged. Throws bad_input for a damaged or truncated file, or above 1 GiB
  /// unpacked.
  bool more(std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Returns the approximate unpacked size of a regular file in bytes (modulo 4 GiB for gzip); 0 if
/// not known: for a missing file, or one of less than 4 bytes.
std::uint64_t unpacked_size(const std::string& path);

/// Separators between fields; Separator{';'} is any other character. `blanks`: one or more blanks
/// between fields, and any number before the first.
enum class Separator : char { comma = ',', bar = '|', tab = '\t', blanks = ' ' };

/// Reader of the rows of a table.
class CsvReader {
 public:
  /// Constructs a reader before the first row. `path` is for messages; both must outlive the
  /// reader. `first_line`: line number of the first line of `text`, if earlier rows were read
  /// separately; a byte order mark is skipped only on line 1.
  CsvReader(const std::string& path, std::string_view text, Separator mark = Separator::comma,
            int first_line = 1);

  /// Reads the next row's fields, valid until the next call, in place of the contents of `fields`.
  /// An empty line is a row of one empty field (is_blank()); a line feed at the end of the text
  /// begins no row. Returns false at the end, with `fields` empty. Throws bad_input on a quote that
  /// is never closed or misplaced.
  bool next_row(std::vector<std::string_view>& fields);

  int line() const { return row_line_; }  ///< line in which the row begins; 0 before the first
  /// Returns true if the row of the last next_row() is an empty line; true before the first call.
  bool is_blank() const { return row_.empty(); }

  /// Throws bad_input at a field of the row; at the row's begin if it has no such field.
  [[noreturn]] void fail_at_field(std::size_t field, const std::string& message) const;
  /// Throws bad_input at the begin of the row.
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

/// Returns `text` as a field of a CSV, in quotes if necessary.
std::string csv_field(std::string_view text);

}  // namespace orrery
