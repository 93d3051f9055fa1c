class driver:
    @classmethod
    def set_active(cls, active):
        cls.active = active
