# SPDX-License-Identifier: BSD-2-Clause
"""Where a C source can be mutated, and the source with all of its mutants, each behind a switch that is set at run time.

A point is an expression in a function's body. Left out: what must be constant (labels of cases, sizes, designators, static
initialisers, arguments of builtins), the bodies of macros (but not their arguments), asserts, and the step of a for loop.
No operand is written twice, and no line is added: operands go into variables, or the operator is the other one of De Morgan's.
"""
import bisect
import collections
import ctypes
import os
import re

from clang import cindex

K = cindex.CursorKind
T = cindex.TypeKind
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mutant.h')
OTHER = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '&&': '||', '||': '&&', '+': '-', '-': '+', '&': '|', '|': '&'}
LITERAL = re.compile(r'(0[xX][\da-fA-F]+|\d+)[uUlL]*')
POINTERS = (T.POINTER, T.CONSTANTARRAY, T.INCOMPLETEARRAY, T.VARIABLEARRAY, T.FUNCTIONPROTO)
NUMBERS = (T.BOOL, T.ENUM, T.CHAR_S, T.CHAR_U, T.SCHAR, T.UCHAR, T.SHORT, T.USHORT, T.INT, T.UINT, T.LONG, T.ULONG, T.LONGLONG, T.ULONGLONG)
WITHOUT = ('assert', 'static_assert', 'offsetof')     # macros whose arguments are not mutated
HAS_BODY = (K.IF_STMT, K.WHILE_STMT, K.FOR_STMT, K.DO_STMT, K.CASE_STMT, K.DEFAULT_STMT, K.LABEL_STMT)

# start and end: offsets in the file. edits: of the text, each (start, end, before, after) or, of an operator, (start, end, instead).
Point = collections.namedtuple('Point', 'file line column operator text mutated start end edits')


class Source:
    """One file's points, in order. Edits have {m} where the switch goes."""

    def __init__(self, path, name, args, text):
        self.path, self.name, self.text, self.points, self.seen = path, name, text, [], set()
        self.bytes = text.encode()
        self.lines = [0] + [m.end() for m in re.finditer('\n', text)]
        unit = cindex.Index.create().parse(path, args=args, unsaved_files=[(path, text)],
                                           options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        wrong = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if wrong:
            raise ValueError(f'{name}: {wrong[0]}')
        here = [c for c in unit.cursor.get_children() if c.location.file and c.location.file.name == path]
        self.macros = [(self.range(c), c.spelling) for c in here if c.kind == K.MACRO_INSTANTIATION]
        for function in here:
            if function.kind == K.FUNCTION_DECL and function.is_definition():
                self.visit(list(function.get_children())[-1], function)

    def offset(self, location):
        """Of an argument of a macro: where it is written."""
        file, line, column, offset = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        cindex.conf.lib.clang_getFileLocation(location, ctypes.byref(file), ctypes.byref(line), ctypes.byref(column), ctypes.byref(offset))
        return offset.value if len(self.bytes) == len(self.text) else len(self.bytes[:offset.value].decode())

    def range(self, cursor):
        return self.offset(cursor.extent.start), self.offset(cursor.extent.end)

    def of(self, cursor):
        start, end = self.range(cursor)
        return self.text[start:end]

    def usable(self, start, end):
        """Does the range have whole invocations of macros, or is it whole inside an argument of each?"""
        part = self.text[start:end]
        if start >= end or any(part.count(a) != part.count(b) for a, b in ('()', '[]', '{}')) or '#' in part:
            return False
        for (first, last), name in self.macros:
            inside = first <= start and end <= last
            if inside and (name in WITHOUT or (first == start and end < last)):
                return False
            if not inside and first < end and start < last and not (start <= first and last <= end):
                return False
        return True

    def add(self, cursor, operator, mutated, *edits):
        start, end = self.range(cursor)
        key = (start, end, operator)
        if key in self.seen or not self.usable(start, end):
            return
        self.seen.add(key)
        line = bisect.bisect(self.lines, start)
        text, mutated = (re.sub(r'\s+', ' ', t) for t in (self.text[start:end], mutated))
        self.points.append(Point(self.name, line, start - self.lines[line - 1] + 1, operator, text, mutated, start, end, edits))

    def around(self, cursor, operator, mutated, before, after):
        self.add(cursor, operator, mutated, (*self.range(cursor), before, after))

    # What is visited.

    def visit(self, c, parent):
        children = list(c.get_children())
        if c.kind in (K.CXX_UNARY_EXPR, K.STATIC_ASSERT, K.ASM_STMT, K.STRUCT_DECL, K.UNION_DECL, K.ENUM_DECL, K.GENERIC_SELECTION_EXPR):
            return
        if c.kind == K.VAR_DECL:
            start = self.offset(c.location)
            children = [] if c.storage_class == cindex.StorageClass.STATIC else \
                [x for x in children[-1:] if '=' in self.text[start:self.range(x)[0]]]
        elif c.kind == K.INIT_LIST_EXPR:
            for child in children:      # [N] = value: N is constant
                designated = self.of(child).startswith('[')
                for x in list(child.get_children())[-1:] if designated else [child]:
                    self.visit(x, c)
            return
        elif c.kind in (K.CASE_STMT, K.CSTYLE_CAST_EXPR, K.COMPOUND_LITERAL_EXPR):
            children = children[-1:]
        elif c.kind == K.CALL_EXPR and c.spelling.startswith('__') and not self.of(c).startswith(('likely', 'unlikely')):
            return
        elif c.kind == K.FOR_STMT:
            self.conditions_of_for(children)
        self.statement(c, children, parent)
        self.expression(c, children)
        for child in children:
            if c.kind != K.FOR_STMT or child.kind.is_statement() or not self.text[self.range(child)[1]:].lstrip().startswith(')'):
                self.visit(child, c)

    def conditions_of_for(self, children):
        for child in children:
            before = self.text[:self.range(child)[0]].rstrip()
            if child.kind.is_expression() and before.endswith(';') and self.text[self.range(child)[1]:].lstrip().startswith(';'):
                self.negate(child)

    def statement(self, c, children, parent):
        start, end = self.range(c)
        condition = c.kind in (K.IF_STMT, K.WHILE_STMT) and children
        if condition and re.search(r'\b(if|while)\s*\($', self.text[start:self.range(children[0])[0]]):
            self.negate(children[0])
        elif c.kind == K.RETURN_STMT and children and self.text.startswith('return', start):
            self.returned(children[0])
        elif c.kind in (K.CALL_EXPR, K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.UNARY_OPERATOR) and \
                (parent.kind == K.COMPOUND_STMT and self.range(parent)[0] < start or
                 parent.kind in HAS_BODY and re.search(r'(\)|:|\belse|\bdo)\s*$', self.text[:start])) and \
                self.text[end:].lstrip().startswith(';'):
            self.around(c, 'remove', '', '({m} ? (void)0 : (void)(', '))')

    def returned(self, c):
        text = self.of(c)
        if text in ('true', 'false'):
            self.around(c, 'return', 'false' if text == 'true' else 'true', '(', ' ^ {m})')
        elif re.fullmatch(r'-E[A-Z0-9]+', text):
            self.around(c, 'return', '0', '({m} ? 0 : ', ')')
        elif re.fullmatch(r'[A-Z][A-Z0-9_]+', text) and c.type.get_canonical().kind in NUMBERS:
            named = list(c.walk_preorder())[-1].referenced
            value = int(named is not None and named.kind == K.ENUM_CONSTANT_DECL and named.enum_value == 0)
            self.around(c, 'return', str(value), f'({{m}} ? {value} : ', ')')

    def negate(self, c):
        """Not && and ||, whose operands are negated, nor == and !=, for which there is the other one."""
        inner = c
        while inner.kind in (K.PAREN_EXPR, K.UNEXPOSED_EXPR) and len(list(inner.get_children())) == 1:
            inner = next(inner.get_children())
        if inner.kind != K.BINARY_OPERATOR or self.operator(inner)[0] not in ('&&', '||', '==', '!='):
            self.around(c, 'negate', f'!({self.of(c)})', '(!!(', ') ^ {m})')

    def operator(self, c):
        """@return the operator between the operands, as it is written, and where; nothing if it is in a macro's body."""
        operands = list(c.get_children())
        if len(operands) != 2:
            return '', 0, 0
        start, end = self.range(operands[0])[1], self.range(operands[1])[0]
        between = re.sub(r'/\*.*?\*/', lambda m: ' ' * len(m[0]), self.text[start:end], flags=re.S)
        at = start + len(between) - len(between.lstrip())
        return between.strip(), at, at + len(between.strip())

    def expression(self, c, children):
        if c.kind == K.INTEGER_LITERAL and LITERAL.fullmatch(self.of(c)):
            one = int(re.match(r'0[xX][\da-fA-F]+|\d+', self.of(c))[0], 0 if self.of(c)[:2].lower() == '0x' else 10) == 1
            self.around(c, 'constant', '0' if one else f'{self.of(c)} + 1', '(', ' - {m})' if one else ' + {m})')
        elif c.kind == K.CONDITIONAL_OPERATOR and children:
            if self.text[self.range(children[0])[1]:].lstrip().startswith('?'):
                self.negate(children[0])
        elif c.kind == K.BINARY_OPERATOR and self.operator(c)[0] in OTHER:
            self.binary(c, children)

    def binary(self, c, children):
        operator, at, end = self.operator(c)
        other = OTHER[operator]
        start, stop = self.range(c)
        if start != self.range(children[0])[0] or stop != self.range(children[1])[1]:
            return
        mutated = self.text[start:at] + other + self.text[end:stop]
        if operator in ('&&', '||'):
            self.add(c, operator, mutated, (start, stop, '({m} ^ (({m} ^ !!(', '))))'), (at, end, f')) {operator} ({{m}} ^ !!('))
            for child in children:
                self.negate(child)
            return
        kinds = [x.type.get_canonical().kind for x in children]
        pointer = [k in POINTERS for k in kinds]
        if not all(k in NUMBERS or p for k, p in zip(kinds, pointer)) or pointer[1] and operator in '+-':
            return
        left, right = ('' if p else '+' for p in pointer)   # + makes a number of a bit-field, which has no type of its own
        self.add(c, operator, mutated,
                 (start, stop, f'({{{{ __auto_type mutant_l = {left}(',
                  f'); {{m}} ? mutant_l {other} mutant_r : mutant_l {operator} mutant_r; }}}})'),
                 (at, end, f'); __auto_type mutant_r = {right}('))


def mutate(text, points, first, total, path):
    """@return the source with these points, which have the numbers from first on; None: without that point."""
    opens, closes, instead = (collections.defaultdict(list) for _ in range(3))
    for n, point in enumerate(points):
        for edit in point.edits if point else ():
            start, end, *texts = edit
            texts = [t.format(m=f'mutant_is({first + n})') for t in texts]
            if len(texts) == 1:
                instead[start].append((end, texts[0]))
            else:
                opens[start].append((-end, n, texts[0]))
                closes[end].append((-start, -n, texts[1]))
    out, at = [f'#define MUTANTS {total}\n#include "{HEADER}"\n#line 1 "{path}"\n'], 0
    for where in sorted({*opens, *closes, *instead}):
        out.append(text[at:where] if where > at else '')
        at = max(at, where)
        out += [t for *_, t in sorted(closes[where])]
        for end, t in instead[where]:
            out.append(t)
            at = max(at, end)
        out += [t for *_, t in sorted(opens[where])]
    return ''.join(out) + text[at:]
