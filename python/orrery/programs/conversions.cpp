// Conversions that keep the name of a stand-in: `float(x)` and `int(x)` of CPython ask a function of
// conversions.py first, unless x is a plain number or a plain text. Compiled by guard.py, without
// headers of Python: a user's machine may have none. All functions need the interpreter's lock.
#include <cstddef>
#include <cstdint>

extern "C" {

struct Object;  // PyObject, whose second word is its type
using Call = Object* (*)(Object* type, Object* const* args, std::size_t count, Object* names);

extern char PyFloat_Type[], PyLong_Type[], PyUnicode_Type[], _Py_NotImplementedStruct[];
Object* PyObject_CallFunctionObjArgs(Object* callable, ...);
void Py_IncRef(Object* object);
void Py_DecRef(Object* object);
}

namespace {

/// Type whose calls are replaced: the function that is asked first, and the original call.
struct Replaced {
  Object* asked = nullptr;
  Call original = nullptr;
};
Replaced of_float, of_int;

bool is_plain(const Object* object) {
  const void* const type = reinterpret_cast<const void* const*>(object)[1];
  return type == PyFloat_Type || type == PyLong_Type || type == PyUnicode_Type;
}

/// Returns the answer of the function that is asked first, or else that of the original call.
Object* convert(const Replaced& by, Object* type, Object* const* args, std::size_t flags,
                Object* names) {
  constexpr std::size_t kOffset = std::size_t{1} << (8 * sizeof(std::size_t) - 1);
  if ((flags & ~kOffset) == 1 && names == nullptr && !is_plain(args[0])) {
    Object* const answer = PyObject_CallFunctionObjArgs(by.asked, args[0], nullptr);
    if (answer != reinterpret_cast<Object*>(_Py_NotImplementedStruct)) return answer;
    Py_DecRef(answer);
  }
  return by.original(type, args, flags, names);
}

Object* convert_to_float(Object* type, Object* const* args, std::size_t flags, Object* names) {
  return convert(of_float, type, args, flags, names);
}

Object* convert_to_int(Object* type, Object* const* args, std::size_t flags, Object* names) {
  return convert(of_int, type, args, flags, names);
}

void replace(Replaced& by, char* type, std::ptrdiff_t place, Object* asked, Call next) {
  Call& slot = *reinterpret_cast<Call*>(type + place);
  if (slot == nullptr || by.original != nullptr) return;
  Py_IncRef(asked);
  by = {asked, slot};
  slot = next;
}

}  // namespace

/// Replaces the calls of `float` and `int`, once. `place`: bytes from the begin of a type object to
/// its pointer tp_vectorcall.
extern "C" void replace_conversions(std::int64_t place, Object* to_float, Object* to_int) {
  replace(of_float, PyFloat_Type, place, to_float, convert_to_float);
  replace(of_int, PyLong_Type, place, to_int, convert_to_int);
}
