import { bash, type Exercise, edit, PY, read } from './exercise.ts';

export const exercise: Exercise = {
  prompt: 'An account can be overdrawn, and a failed transfer loses money. Mend account.py.',
  fault: 'kill',
  tests: PY,
  files: {
    'account.py': `class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def withdraw(self, amount):
        self.balance -= amount

    def transfer(self, other, amount):
        other.balance += amount
        self.withdraw(amount)
`,
    'test_it.py': `import unittest
from account import Account

class TestAccount(unittest.TestCase):
    def test_withdraw(self):
        account = Account(5)
        with self.assertRaises(ValueError):
            account.withdraw(6)
        self.assertEqual(account.balance, 5)

    def test_transfer(self):
        a, b = Account(5), Account()
        with self.assertRaises(ValueError):
            a.transfer(b, 6)
        self.assertEqual((a.balance, b.balance), (5, 0))
        a.transfer(b, 5)
        self.assertEqual((a.balance, b.balance), (0, 5))
`,
  },
  steps: [
    read('account.py'),
    bash(PY),
    edit('account.py', 'amount', 'cents'),
    edit(
      'account.py',
      '        self.balance -= amount\n',
      '        if amount > self.balance:\n            raise ValueError("not enough")\n        self.balance -= amount\n',
    ),
    bash(PY),
    edit(
      'account.py',
      '        other.balance += amount\n        self.withdraw(amount)\n',
      '        self.withdraw(amount)\n        other.balance += amount\n',
    ),
    bash(PY),
  ],
};
