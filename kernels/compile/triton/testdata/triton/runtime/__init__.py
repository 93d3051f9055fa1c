class driver:
    @staticmethod
    def set_active(driver):
        pass
