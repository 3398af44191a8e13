"""Programs that everybody asks for, each with what it is called in a request."""

from __future__ import annotations

from dataclasses import dataclass

from models.demo.data.example import Language


@dataclass(frozen=True)
class Program:
    called: dict[Language, list[str]]
    code: str


PROGRAMS = {
    "quicksort": Program(
        {
            "en": ["quicksort", "quicksort", "quick sort", "the quicksort algorithm"],
            "zh": ["快速排序", "快排", "快速排序算法"],
        },
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
        {
            "en": [
                "a function for the Fibonacci numbers",
                "a function for the fibonacci numbers",
                "the Fibonacci sequence",
                "a Fibonacci function",
                "fibonacci",
            ],
            "zh": ["斐波那契数列", "斐波那契函数", "斐波那契"],
        },
        """\
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a""",
    ),
    "bubble_sort": Program(
        {"en": ["bubble sort", "bubblesort", "a bubble sort"], "zh": ["冒泡排序", "冒泡排序算法"]},
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
        {"en": ["binary search", "a binary search"], "zh": ["二分查找", "二分搜索"]},
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
        {
            "en": ["a function for the factorial", "factorial", "a factorial function"],
            "zh": ["阶乘", "阶乘函数"],
        },
        """\
def factorial(n):
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result""",
    ),
    "gcd": Program(
        {"en": ["the greatest common divisor", "gcd", "a gcd function"], "zh": ["最大公约数", "最大公因数"]},
        """\
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a""",
    ),
    "is_prime": Program(
        {"en": ["a prime number test", "a prime check", "is_prime"], "zh": ["素数判断", "质数判断"]},
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
        {"en": ["a palindrome test", "a palindrome check", "is_palindrome"], "zh": ["回文判断", "回文检查"]},
        """\
def is_palindrome(text):
    return text == text[::-1]""",
    ),
    "hello": Program(
        {
            "en": ["hello world", "a hello world program", "hello, world"],
            "zh": ["一个问候程序", "hello world"],
        },
        'print("Hello, world!")',
    ),
}
