// Set type for the alternatives of a variant, which are named by type and never by number. Policies
// list their needs and runs list their features with such sets. Plain value; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

namespace orrery {

/// Set of alternatives of `Variant`, one bit each. For example, Kinds<Action>::of<Assign, Save>()
/// contains Assign and Save.
template <class Variant>
class Kinds {
 public:
  static constexpr std::size_t kCount = std::variant_size_v<Variant>;
  static_assert(kCount < 32, "one bit each");

  constexpr Kinds() = default;
  /// Returns the set of the alternatives K.
  template <class... K>
  static constexpr Kinds of() {
    return Kinds((bit<K>() | ... | 0u));
  }
  /// Returns the set of all alternatives.
  static constexpr Kinds all() { return Kinds((1u << kCount) - 1); }
  /// Returns the set with these bits of the wire format. Bits without an alternative stay set, so
  /// that a later check finds them.
  static constexpr Kinds from_bits(std::uint32_t bits) { return Kinds(bits); }

  /// Returns true if the set contains alternative K.
  template <class K>
  constexpr bool has() const {
    return (bits_ & bit<K>()) != 0;
  }
  /// Returns true if the set contains the alternative with this index, which must be below 32.
  constexpr bool has_index(std::size_t index) const { return (bits_ >> index & 1u) != 0; }
  /// Returns true if the set contains the alternative that `value` holds.
  bool has(const Variant& value) const { return has_index(value.index()); }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }

  friend constexpr Kinds operator|(Kinds a, Kinds b) { return Kinds(a.bits_ | b.bits_); }
  friend constexpr Kinds operator&(Kinds a, Kinds b) { return Kinds(a.bits_ & b.bits_); }
  /// Returns the alternatives in `a` that are not in `b`.
  friend constexpr Kinds operator-(Kinds a, Kinds b) { return Kinds(a.bits_ & ~b.bits_); }
  friend constexpr bool operator==(Kinds, Kinds) = default;

 private:
  explicit constexpr Kinds(std::uint32_t bits) : bits_(bits) {}
  template <class K>
  static constexpr std::uint32_t bit() {
    constexpr std::uint32_t found = []<std::size_t... I>(std::index_sequence<I...>) {
      return ((std::is_same_v<K, std::variant_alternative_t<I, Variant>> ? 1u << I : 0u) | ...);
    }(std::make_index_sequence<kCount>{});
    static_assert(found != 0, "an alternative of the variant");
    return found;
  }
  std::uint32_t bits_ = 0;
};

}  // namespace orrery
