"""Programs that everybody asks for, each with what it is called in a request."""

from __future__ import annotations

from dataclasses import dataclass

from models.demo.data.example import Language


@dataclass(frozen=True)
class Program:
    called: dict[Language, str]
    code: str


PROGRAMS = {
    "quicksort": Program(
        {"en": "quicksort", "zh": "快速排序"},
        """\
def quicksort(numbers):
    if len(numbers) <= 1:
        return numbers
    pivot = numbers[0]
    smaller = [n for n in numbers[1:] if n < pivot]
    others = [n for n in numbers[1:] if n >= pivot]
    return quicksort(smaller) + [pivot] + quicksort(others)""",
    ),
    "fibonacci": Program(
        {"en": "a function for the Fibonacci numbers", "zh": "斐波那契数列"},
        """\
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a""",
    ),
    "bubble_sort": Program(
        {"en": "bubble sort", "zh": "冒泡排序"},
        """\
def bubble_sort(numbers):
    numbers = list(numbers)
    for end in range(len(numbers) - 1, 0, -1):
        for i in range(end):
            if numbers[i] > numbers[i + 1]:
                numbers[i], numbers[i + 1] = numbers[i + 1], numbers[i]
    return numbers""",
    ),
    "binary_search": Program(
        {"en": "binary search", "zh": "二分查找"},
        """\
def binary_search(numbers, target):
    low, high = 0, len(numbers) - 1
    while low <= high:
        middle = (low + high) // 2
        if numbers[middle] == target:
            return middle
        if numbers[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1""",
    ),
    "factorial": Program(
        {"en": "a function for the factorial", "zh": "阶乘"},
        """\
def factorial(n):
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result""",
    ),
    "gcd": Program(
        {"en": "the greatest common divisor", "zh": "最大公约数"},
        """\
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a""",
    ),
    "is_prime": Program(
        {"en": "a prime number test", "zh": "素数判断"},
        """\
def is_prime(n):
    if n < 2:
        return False
    for i in range(2, int(n ** 0.5) + 1):
        if n % i == 0:
            return False
    return True""",
    ),
    "is_palindrome": Program(
        {"en": "a palindrome test", "zh": "回文判断"},
        """\
def is_palindrome(text):
    return text == text[::-1]""",
    ),
    "hello": Program(
        {"en": "hello world", "zh": "一个问候程序"},
        'print("Hello, world!")',
    ),
}
