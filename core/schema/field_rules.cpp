#include "core/schema/field_rules.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "core/schema/yaml_tree.hpp"

namespace orrery {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::OneofDescriptor;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// Returns the length of the decimal number at the start of `text`; 0 if `text` begins with no
// number or with a form that readers disagree about (leading zero or plus, no digit beside the
// point).
std::size_t number_length(std::string_view text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  std::size_t end = skip_digits(text, first);
  if (end == first || (end > first + 1 && text[first] == '0')) return 0;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = skip_digits(text, end + 1);
    if (fraction == end + 1) return 0;
    end = fraction;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const std::size_t exponent = skip_digits(text, digits);
    if (exponent > digits) end = exponent;
  }
  return end;
}

bool is_whole(std::string_view text) {
  return number_length(text) == text.size() &&
         text.find_first_not_of("-0123456789") == std::string_view::npos;
}

std::string bound_text(double bound, const FieldDescriptor& field) {
  const FieldRule& rules = rule_of(field);
  const Dimension dimension = dimension_of(rules);
  if (dimension == Dimension::none || bound == 0) return fmt::format("{}", bound);
  const bool nanoseconds = field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
  return format_quantity(nanoseconds ? bound / 1e9 : bound, dimension);
}

std::string range_problem(const FieldDescriptor& field, std::string_view text) {
  const auto [low, high] = range_of(field);
  const FieldRule& rules = rule_of(field);
  const std::string name = fmt::format("'{}' must be ", field.name());
  const std::string got = fmt::format(", not {}", shown(text));
  if (!rules.has_max()) return name + "at least " + bound_text(low, field) + got;
  return name + "between " + bound_text(low, field) + " and " + bound_text(high, field) + got;
}

bool in_range(const FieldDescriptor& field, double value) {
  const auto [low, high] = range_of(field);
  return value >= low && value <= high;
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = status == std::errc() && rest == text.data() + text.size();
  return all ? std::optional(value) : std::nullopt;
}

/// Returns the digits of a whole number written with an exponent, "2000" for "2e3"; other texts as
/// they are. At most 18 zeros are added.
std::string without_exponent(std::string_view text) {
  const std::size_t at = text.find_first_of("eE");
  if (at == std::string_view::npos || at == 0) return std::string(text);
  std::string digits(text.substr(0, at));
  const auto zeros = parse_whole<std::uint32_t>(text.substr(at + 1));
  const std::size_t dot = digits.find('.');
  const std::size_t decimals = dot == std::string::npos ? 0 : digits.size() - dot - 1;
  if (!zeros || *zeros > 18 || decimals > *zeros) return std::string(text);
  if (dot != std::string::npos) digits.erase(dot, 1);
  return digits + std::string(*zeros - decimals, '0');
}

/// Returns the number with an exponent in place of its suffix, "2e12" for "2T"; other texts as they
/// are.
std::string with_exponent(std::string_view text) {
  constexpr std::string_view kSuffixes = "kMBT";  // each is a thousand times the one before
  const std::size_t power = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
  if (power == std::string_view::npos) return std::string(text);
  return fmt::format("{}e{}", text.substr(0, text.size() - 1), 3 * (power + 1));
}

void store(Message& message, const FieldDescriptor& field, double value) {
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddDouble(&message, &field, value)
                      : reflection.SetDouble(&message, &field, value);
}

void store_whole(Message& message, const FieldDescriptor& field, std::int64_t number) {
  const auto& reflection = *message.GetReflection();
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto value = static_cast<std::int32_t>(number);
      add ? reflection.AddInt32(&message, &field, value)
          : reflection.SetInt32(&message, &field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = static_cast<std::uint32_t>(number);
      add ? reflection.AddUInt32(&message, &field, value)
          : reflection.SetUInt32(&message, &field, value);
      return;
    }
    case FieldDescriptor::CPPTYPE_INT64:
      add ? reflection.AddInt64(&message, &field, number)
          : reflection.SetInt64(&message, &field, number);
      return;
    case FieldDescriptor::CPPTYPE_UINT64: {
      const auto value = static_cast<std::uint64_t>(number);
      add ? reflection.AddUInt64(&message, &field, value)
          : reflection.SetUInt64(&message, &field, value);
      return;
    }
    default: ensure(false, "a whole-number field");
  }
}

/// Returns a hint if `text` is a quantity in wrong case: "; did you mean 100 Gbps?" for "100 gbps".
/// Case matters, because MW is not mW.
std::string case_hint(std::string_view text, Dimension dimension) {
  const std::size_t unit = text.find_first_not_of(' ', number_length(text));
  if (unit == 0 || unit == std::string_view::npos || text.size() > 40) return {};
  const auto each = [&](std::size_t from, auto change) {
    std::string out(text);
    for (std::size_t i = from; i < out.size(); ++i) {
      out[i] = static_cast<char>(change(static_cast<unsigned char>(out[i])));
    }
    return out;
  };
  const auto upper = [](int c) { return std::toupper(c); };
  const auto lower = [](int c) { return std::tolower(c); };
  std::string first = each(unit, lower);
  first[unit] = static_cast<char>(std::toupper(static_cast<unsigned char>(first[unit])));
  std::string binary = each(unit, upper);
  if (binary.size() == unit + 3) binary[unit + 1] = 'i';  // GiB
  for (const std::string& variant : {first, each(unit, upper), each(unit, lower), binary}) {
    if (parse_quantity(variant, dimension)) return fmt::format("; did you mean {}?", variant);
  }
  return {};
}

std::string put_quantity(Message& message, const FieldDescriptor& field, std::string_view text) {
  const Dimension dimension = dimension_of(rule_of(field));
  const std::string_view example = example_of(dimension);
  const std::size_t number = number_length(text);
  if (number > 0 && number == text.size()) {
    return fmt::format("'{}' needs a unit: write for example {}", field.name(), example);
  }
  const auto value = number > 0 ? parse_quantity(text, dimension) : std::nullopt;
  if (!value) {
    return fmt::format("'{}' cannot be '{}'; write for example {}{}", field.name(), shown(text),
                       example, case_hint(text, dimension));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    if (!in_range(field, *value)) return range_problem(field, text);
    store(message, field, *value);
    return {};
  }
  // Below 9.2e18 ns the conversion is exact enough and cannot overflow.
  const double nanoseconds = *value * 1e9;
  if (!in_range(field, nanoseconds) || std::abs(nanoseconds) > 9.2e18) {
    return range_problem(field, text);
  }
  store_whole(message, field, to_nanos(*value));
  return {};
}

std::string put_whole(Message& message, const FieldDescriptor& field, std::string_view given) {
  const bool suffixed = takes_suffix(field);
  const std::string text = without_exponent(suffixed ? with_exponent(given) : given);
  if (!is_whole(text)) {
    return fmt::format("'{}' must be a whole number{}, not '{}'", field.name(),
                       suffixed ? ", such as 1500, 10k, 300B or 2T" : "", shown(given));
  }
  const auto value = parse_whole<std::int64_t>(text);
  if (!value || !in_range(field, static_cast<double>(*value))) return range_problem(field, given);
  store_whole(message, field, *value);
  return {};
}

std::string put_double(Message& message, const FieldDescriptor& field, std::string_view text) {
  const auto value = number_length(text) == text.size() && !text.empty()
                         ? parse_quantity(text, Dimension::none)
                         : std::nullopt;
  if (!value) return fmt::format("'{}' must be a number, not '{}'", field.name(), shown(text));
  if (!in_range(field, *value)) return range_problem(field, text);
  store(message, field, *value);
  return {};
}

std::string put_bool(Message& message, const FieldDescriptor& field, std::string_view text) {
  if (text != "true" && text != "false") {
    return fmt::format("'{}' must be true or false, not '{}'", field.name(), shown(text));
  }
  if (text == "false" && field.real_containing_oneof() != nullptr) {
    return fmt::format("'{}' can only be true; leave the key out for another choice", field.name());
  }
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddBool(&message, &field, text == "true")
                      : reflection.SetBool(&message, &field, text == "true");
  return {};
}

std::string put_string(Message& message, const FieldDescriptor& field, std::string_view text) {
  const FieldRule& rules = rule_of(field);
  const bool odd = first_bad_byte(text) != std::string_view::npos;
  if (odd) return fmt::format("'{}' holds a control character", field.name());
  if (rules.required() && text.empty()) return fmt::format("'{}' is empty", field.name());
  const std::vector<std::string> allowed = allowed_words(field);
  bool found = allowed.empty();
  for (const std::string& value : allowed) found = found || value == text;
  if (!found) {
    return fmt::format("'{}' must be one of {}, not '{}'{}", field.name(), fmt::join(allowed, ", "),
                       shown(text), did_you_mean(text, allowed));
  }
  const auto& reflection = *message.GetReflection();
  field.is_repeated() ? reflection.AddString(&message, &field, std::string(text))
                      : reflection.SetString(&message, &field, std::string(text));
  return {};
}

double type_limit(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return std::numeric_limits<std::int32_t>::max();
    case FieldDescriptor::CPPTYPE_UINT32: return std::numeric_limits<std::uint32_t>::max();
    case FieldDescriptor::CPPTYPE_DOUBLE: return std::numeric_limits<double>::max();
    default: return 9.2e18;
  }
}

}  // namespace

const FieldRule& rule_of(const FieldDescriptor& field) {
  return field.options().GetExtension(rule);
}

std::vector<std::string> allowed_words(const FieldDescriptor& field) {
  const FieldRule& rules = rule_of(field);
  std::vector<std::string> words(rules.one_of().begin(), rules.one_of().end());
  if (rules.names_of().empty()) return words;
  const auto* const names =
      DescriptorPool::generated_pool()->FindEnumTypeByName("orrery." + rules.names_of());
  ensure(names != nullptr, "the program contains the enum that a rule names");
  for (int i = 0; i < names->value_count(); ++i) {
    std::string word = names->value(i)->name();
    word.erase(0, word.find('_') + 1);
    for (char& c : word) {
      c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    words.push_back(std::move(word));
  }
  return words;
}

bool is_required(const OneofDescriptor& choice_of) {
  return choice_of.options().GetExtension(oneof_rule).required();
}

std::string choices_of(const OneofDescriptor& choice_of) {
  std::vector<std::string> names;
  for (int i = 0; i < choice_of.field_count(); ++i) names.push_back(choice_of.field(i)->name());
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

Dimension dimension_of(const FieldRule& rules) {
  switch (rules.unit()) {
    case TIME: return Dimension::time;
    case DATA: return Dimension::data;
    case DATA_RATE: return Dimension::data_rate;
    case FLOP_RATE: return Dimension::flop_rate;
    case POWER: return Dimension::power;
    case MONEY: return Dimension::money;
    case MONEY_RATE: return Dimension::money_rate;
    case SHARE: return Dimension::share;
    default: return Dimension::none;
  }
}

Range range_of(const FieldDescriptor& field) {
  const FieldRule& rules = rule_of(field);
  return {rules.has_min() ? rules.min() : 0.0, rules.has_max() ? rules.max() : type_limit(field)};
}

bool takes_suffix(const FieldDescriptor& field) {
  constexpr double kSmallest = 1e12;
  const auto type = field.cpp_type();
  const bool whole =
      type == FieldDescriptor::CPPTYPE_UINT64 || type == FieldDescriptor::CPPTYPE_INT64;
  return whole && rule_of(field).unit() == UNITLESS && range_of(field).high >= kSmallest;
}

std::string put_scalar(Message& message, const FieldDescriptor& field, std::string_view text,
                       bool plain) {
  const auto type = field.cpp_type();
  if (type == FieldDescriptor::CPPTYPE_STRING) return put_string(message, field, text);
  const FieldRule& rules = rule_of(field);
  // Quantities are text with a unit and may have quotes, as a number with a suffix. Any other
  // number or a truth value in quotes is text, which is refused.
  if (rules.unit() != UNITLESS) return put_quantity(message, field, text);
  if (!plain && !(takes_suffix(field) && with_exponent(text) != text)) {
    return fmt::format("'{}' must be {}; \"{}\" in quotes is text", field.name(),
                       type == FieldDescriptor::CPPTYPE_BOOL ? "true or false" : "a number",
                       shown(text));
  }
  switch (type) {
    case FieldDescriptor::CPPTYPE_BOOL: return put_bool(message, field, text);
    case FieldDescriptor::CPPTYPE_DOUBLE: return put_double(message, field, text);
    default: return put_whole(message, field, text);
  }
}

bool is_any(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Any";
}

const Descriptor* parameters_type(const Message& holder) {
  const FieldDescriptor* name_field = holder.GetDescriptor()->FindFieldByName("name");
  if (name_field == nullptr || name_field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return nullptr;
  }
  std::string type = "orrery.";
  bool upper = true;
  for (const char c : holder.GetReflection()->GetString(holder, name_field)) {
    const bool lower = c >= 'a' && c <= 'z';
    if (!lower && !is_digit(c) && c != '-') return nullptr;
    if (c != '-') type += upper && lower ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '-';
  }
  return DescriptorPool::generated_pool()->FindMessageTypeByName(type + "Parameters");
}

Message* new_message(const Descriptor& type) {
  const Message* prototype = MessageFactory::generated_factory()->GetPrototype(&type);
  return prototype == nullptr ? nullptr : prototype->New();
}

bool is_present(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

}  // namespace orrery
